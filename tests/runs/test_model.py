"""`cfgen.load`: runs, checkpoints and exports; counterfactuals in real units; refusals of what is not a model."""

import pickle
import shutil

import numpy as np
import pytest
import torch

import cfgen
from cfgen.errors import UserError
from cfgen.interventions import parse_intervention
from datamodules import MorphoMNIST


@pytest.fixture(scope="module")
def digits(digits_cache):
    data = MorphoMNIST(limit=300, cache_dir=str(digits_cache))
    data.prepare_data()
    data.setup()
    return data.images("test"), data.columns("test")


def test_run_folder_checkpoint_and_export_are_the_same_model(tiny_run, digits, tmp_path):
    x, a = digits
    by_name = cfgen.load(tiny_run.parent)
    exported = by_name.save(tmp_path / "exported")
    results = [
        cfgen.load(what).counterfactual(x, a, {"thickness": 3.0})
        for what in (tiny_run.parent, tiny_run, tiny_run / "best.ckpt", exported)
    ]
    for other in results[1:]:
        assert torch.equal(other.images, results[0].images)
    with pytest.raises(UserError, match="holds an exported model already"):
        by_name.save(exported)


def test_counterfactuals_in_real_units(tiny_run, digits):
    x, a = digits
    model = cfgen.load(tiny_run)
    result = model.counterfactual(x, a, do={"thickness": 3.0})
    assert result.images.shape == x.shape
    assert result.images.min() >= 0
    assert result.images.max() <= 1
    assert (result.attributes["thickness"] - 3).abs().max() < 1e-4
    torch.testing.assert_close(result.attributes["slant"], a["slant"], rtol=1e-4, atol=1e-4)
    assert torch.equal(result.attributes["label"], a["label"].long())
    moved = (result.attributes["intensity"] - a["intensity"]).abs()
    assert moved[(a["thickness"] - 3).abs() > 0.3].min() > 1  # intensity follows thickness
    null = model.counterfactual(x, a, do={})
    assert torch.equal(null.images, null.reconstructions)
    torch.testing.assert_close(null.images, model.counterfactual(x, a, do={}, batch_size=7).images)
    frame = result.to_frame()
    assert len(frame) == len(x)
    assert set(frame.columns) == set(a)


def test_values_may_differ_between_images(tiny_run, digits):
    x, a = digits
    model, thickness = cfgen.load(tiny_run), torch.linspace(2, 4, len(x))
    result = model.counterfactual(x, a, do={"thickness": thickness})
    torch.testing.assert_close(result.attributes["thickness"], thickness, rtol=0, atol=1e-4)
    for wrong, message in ((thickness[:3], "one for each of the"), (thickness + 90, "out of range")):
        with pytest.raises(UserError, match=message) as refusal:
            model.counterfactual(x, a, do={"thickness": wrong})
        assert refusal.value.argument == "do"


def test_an_intervention_may_be_given_as_text_as_values_or_parsed_but_once(tiny_run):
    model, text = cfgen.load(tiny_run), "thickness=+0.1"
    made = [
        model.generate(do, index=[0, 1]) for do in ([text], [{"thickness": "+0.1"}], {text: parse_intervention(text)})
    ]
    for one in made:
        assert list(one.counterfactuals) == [text]
        assert torch.equal(one.counterfactuals[text], made[0].counterfactuals[text])
    for do, message in (([text, text], "is given twice"), (["thickness=3", {"thickness": 3.0}], "are the same")):
        with pytest.raises(UserError, match=message):
            model.generate(do)


def test_what_was_made_can_be_saved(tiny_run, digits, tmp_path):
    x, a = digits
    few = {name: column[:2] for name, column in a.items()}
    result = cfgen.load(tiny_run).counterfactual(x[:2], few, do={"label": 7})
    folder = result.save(tmp_path / "made")
    assert sorted(path.name for path in folder.iterdir()) == [
        "attributes.csv",
        "counterfactual-000.png",
        "counterfactual-001.png",
        "reconstruction-000.png",
        "reconstruction-001.png",
    ]
    with pytest.raises(UserError) as refused:
        result.save(folder)
    assert refused.value.argument == "folder"


def test_images_may_come_in_many_forms(tiny_run):
    model = cfgen.load(tiny_run)
    a = {"thickness": 2.5, "intensity": 160.0, "slant": 0.1, "label": 3}
    image = np.zeros((28, 28), dtype=np.uint8)
    image[5:20, 12:16] = 255
    forms = [image, image[None], image[None, None], torch.from_numpy(image), image.astype(np.float32) / 255]
    results = [model.counterfactual(form, a, {"label": 7}).images for form in forms]
    for other in results[1:]:
        torch.testing.assert_close(other, results[0])
    assert model.counterfactual(image, a, {"label": "7"}).attributes["label"].tolist() == [7]


@pytest.mark.parametrize(
    ("x", "a", "do", "argument"),
    [
        (torch.zeros(2, 3, 28, 28), {}, {"label": 1}, "x"),
        (torch.full((1, 28, 28), 7.0), {}, {"label": 1}, "x"),
        (torch.zeros(1, 28, 28), {"label": 3, "slant": 0.0}, {"label": 1}, "a"),
        (torch.zeros(1, 28, 28), {"thickness": 2.0, "intensity": 99.0, "label": 3, "slant": 0.0}, {"label": 11}, "do"),
    ],
)
def test_bad_images_and_attributes(tiny_run, x, a, do, argument):
    with pytest.raises(UserError) as refused:
        cfgen.load(tiny_run).counterfactual(x, a, do)
    assert refused.value.argument == argument


class Bomb:
    def __reduce__(self):
        return (open, ("/nonexistent/bomb", "w"))


def test_what_is_not_a_model_is_refused(tiny_run, tmp_path):
    with pytest.raises(UserError, match="nowhere"):
        cfgen.load("nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="holds no finished run"):
        cfgen.load(tmp_path / "empty")
    hostile = tmp_path / "hostile.ckpt"
    hostile.write_bytes(pickle.dumps(Bomb(), protocol=2))
    with pytest.raises(UserError, match="is not a checkpoint"):
        cfgen.load(hostile)
    torn = tmp_path / "torn.ckpt"
    torn.write_bytes((tiny_run / "best.ckpt").read_bytes()[:5000])
    with pytest.raises(UserError, match="is not a checkpoint"):
        cfgen.load(torn)
    foreign = tmp_path / "foreign.ckpt"
    checkpoint = torch.load(tiny_run / "best.ckpt", weights_only=True)
    torch.save(checkpoint | {"class_path": "subprocess.Popen"}, foreign)
    with pytest.raises(UserError, match="is a subprocess.Popen, but a ImageMechanismModule is needed"):
        cfgen.load(foreign)
    half = tmp_path / "half"
    cfgen.load(tiny_run).save(half)
    (half / "model.safetensors").write_bytes(b"\x08\x00")
    with pytest.raises(UserError, match="is not an exported model"):
        cfgen.load(half)
    shutil.rmtree(half)
