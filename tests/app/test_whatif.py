"""The page "What if": its pictures are those of `cfgen generate`, and its recipes make them again."""

import contextlib
import io
import shlex

import numpy as np
import pytest
import torch
from PIL import Image

import cfgen
from cfgen.app.catalogue import Catalogue
from cfgen.app.drawing import difference_map
from cfgen.app.whatif import OpenModel
from cfgen.commands import generate
from tests.app import world
from tests.app.world import MODEL, WET, pixels_of


@pytest.fixture
def opened(here):
    return OpenModel(cfgen.load(MODEL))


def as_bytes(image):
    return (image.clamp(0, 1) * 255).round().to(torch.uint8).squeeze()


@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize("do", [{"size": 4.5}, {"size": 2.0, "colour": "green"}, {WET: 1}, {"gloss": 3.0, "size": 1.5}])
def test_the_answer_is_that_of_generate(opened, do, follow):
    answer = opened.answer(7, do, follow=follow)
    hold = sorted(opened.model.scm.graph.descendants(do) - set(do)) if not follow else []
    made = opened.model.generate([do], index=[7], hold=hold)
    assert torch.equal(pixels_of(answer["original"]), as_bytes(made.images[0]))
    assert torch.equal(pixels_of(answer["reconstruction"]), as_bytes(made.reconstructions[0]))
    (images,) = made.counterfactuals.values()
    assert torch.equal(pixels_of(answer["counterfactual"]), as_bytes(images[0]))
    (after,) = made.counterfactual_attributes.values()
    for name, value in answer["counterfactual_attributes"].items():
        assert value == pytest.approx(after[name][0] if isinstance(after[name], list) else after[name][0].item())


def test_the_graph_tells_what_was_set_cut_and_moved(opened):
    nothing = opened.answer(0, {})
    assert nothing["attributes"] == nothing["counterfactual_attributes"]
    assert nothing["intervened"] == nothing["moved"] == nothing["cut"] == []
    assert nothing["shell"] == nothing["python"] == ""
    followed, alone = (opened.answer(0, {"size": 4.5}, follow=follow) for follow in (True, False))
    assert (followed["intervened"], followed["moved"], followed["cut"]) == (["size"], ["gloss"], [])
    assert (alone["moved"], alone["held"], alone["cut"]) == ([], ["gloss"], [("size", "gloss")])
    assert alone["counterfactual_attributes"]["gloss"] == alone["attributes"]["gloss"]
    assert opened.answer(0, {"gloss": 2.0})["cut"] == [("size", "gloss")]


def test_a_strip_shows_what_the_slider_would(studio):
    from cfgen.app.studio import Question

    question = Question.of({"model": MODEL, "image": 3, "do": {"colour": "red"}, "classifier": world.CLASSIFIER})
    frames = studio.strip(question, "size")
    assert [frame["value"] for frame in frames] == [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0]
    for frame in frames[::4]:
        asked = {"model": MODEL, "image": 3, "do": {"colour": "red", "size": frame["value"]}}
        answer = studio.answer(Question.of({**asked, "classifier": world.CLASSIFIER}))
        assert torch.equal(pixels_of(answer["counterfactual"]), pixels_of(frame["picture"]))
        assert answer["classifier"]["answers"][2]["p"] == pytest.approx(frame["classifier"]["p"], abs=1e-6)
    assert [frame["value"] for frame in studio.strip(question, "colour")] == ["red", "green"]


def test_the_classifier_is_asked_about_all_three_pictures(studio):
    from cfgen.app.studio import Question

    asked = {"model": MODEL, "image": 1, "do": {"size": 5.0}, "classifier": world.CLASSIFIER}
    answer = studio.answer(Question.of(asked))
    for kind, said in zip(
        ("original", "reconstruction", "counterfactual"), answer["classifier"]["answers"], strict=True
    ):
        p = torch.sigmoid(world.bright()(pixels_of(answer[kind])[None, None] / 255)).item()
        assert said["p"] == pytest.approx(p, abs=0.02)
        assert said["answer"] == ("yes" if said["p"] > 0.5 else "no")


@pytest.mark.parametrize(
    ("name", "inputs", "wanted"),
    [
        (world.SHADES, {}, lambda x: [f"class {k}" for k in world.shades()(x).argmax(1).tolist()]),
        (world.SHADES, {"classes": ("dark", "middle", "light")}, lambda x: ["dark", "middle", "light"]),
        (world.MEAN, {"output": "value"}, lambda x: [f"{value:.4g}" for value in world.mean()(x).tolist()]),
    ],
)
def test_classifiers_of_several_classes_and_of_values_are_asked_too(here, name, inputs, wanted):
    catalogue = Catalogue(MODEL, [name], inputs)
    opened = OpenModel(catalogue.load(MODEL))
    asked = catalogue.load_classifier(name, opened.model)
    said = opened.answer(1, {"size": 5.0}, classifier=asked)["classifier"]
    x = torch.stack([opened.abducted(1, {}).images[0], opened.abducted(1, {}).reconstructions[0]])
    answers = [one["answer"] for one in said["answers"]]
    if inputs.get("classes"):
        assert set(answers) <= set(wanted(x))
    else:
        assert answers[:2] == wanted(x)
    best = world.shades()(x).softmax(1).max(1).values.tolist()
    assert [one["p"] for one in said["answers"][:2]] == ([None] * 2 if "output" in inputs else pytest.approx(best))
    assert said["label"] == ("yes" if "output" in inputs else "")


@pytest.mark.parametrize("follow", [True, False])
def test_the_recipes_make_the_same_picture(follow, tmp_path, monkeypatch):
    """Of a packaged model, by Python and by the shell: the very pixels."""
    monkeypatch.chdir(tmp_path)
    opened = OpenModel(cfgen.load("morphomnist-hvae"))
    answer = opened.answer(3, {"thickness": 5.03, "label": 7}, follow=follow)
    check_recipes(answer, tmp_path, monkeypatch)


def test_the_recipes_of_an_upload_name_its_file(tmp_path, monkeypatch):
    from cfgen.app.uploads import Upload, proposed_attributes

    monkeypatch.chdir(tmp_path)
    opened = OpenModel(cfgen.load("morphomnist-hvae"))
    picture = opened.source.images[5, 0].numpy()
    Image.fromarray(picture).save(tmp_path / "my digit.png")
    upload = Upload("id", "my digit.png", tmp_path / "my digit.png")
    proposed = proposed_attributes(opened.model, upload)
    assert {name for name, one in proposed.items() if one["measured"]} == {"thickness", "intensity", "slant"}
    assert proposed["label"]["value"] == opened.example(5)["attributes"]["label"]  # read by a judge
    answer = opened.answer(upload, {"slant": -0.2}, given={"label": proposed["label"]["value"], "thickness": 2.5})
    assert answer["attributes"]["thickness"] == 2.5
    check_recipes(answer, tmp_path, monkeypatch)


def check_recipes(answer, folder, monkeypatch):
    wanted = pixels_of(answer["counterfactual"]).numpy()
    words = shlex.split(answer["shell"])
    assert words[:2] == ["cfgen", "generate"]
    with contextlib.redirect_stdout(io.StringIO()):
        assert generate.main(words[2:]) == 0
    (drawn,) = (folder / "counterfactual").glob("*do(*.png")
    assert np.array_equal(np.array(Image.open(drawn)), wanted)
    (folder / "python").mkdir()
    for file in folder.glob("*.png"):
        file.rename(folder / "python" / file.name)
    monkeypatch.chdir(folder / "python")
    exec(answer["python"], {})
    (drawn,) = (folder / "python/counterfactual").glob("*do(*.png")
    assert np.array_equal(np.array(Image.open(drawn)), wanted)


def test_the_difference_is_symmetric_about_nothing():
    one, other = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    forth, back = (difference_map(*pair) for pair in ((one, other), (other, one)))
    assert forth[1] == back[1] == pytest.approx((one - other).mean(0).abs().max().item())
    red = pixels_of(forth[0]).float()
    blue = pixels_of(back[0]).float()
    brighter = ((one - other).mean(0) > 0.05).numpy()
    assert (red[brighter][:, 0] > red[brighter][:, 2]).all()
    assert (blue[brighter][:, 2] > blue[brighter][:, 0]).all()
    nothing, scale = difference_map(one, one)
    assert scale > 0
    assert len(pixels_of(nothing).reshape(-1, 3).unique(dim=0)) == 1
