"""What an evaluation and a comparison say and write."""

import csv
import json
import math

import pytest
import yaml
from rich.console import Console

from cfgen.errors import UserError
from cfgen.evaluation import Comparison, Evaluation, Score, compare, evaluate
from cfgen.evaluation.metrics.base import Cell, Description
from cfgen.evaluation.terminal import show
from cfgen.runs.model import TrainedModel, load_trained
from tests.evaluation.scoring import make_run
from tests.fakes import Dimming, Painted, Painter, fitted

ROWS = 40
DATA = {"class_path": "tests.fakes.Painted", "init_args": {"rows": ROWS}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder, data = tmp_path_factory.mktemp("runs"), Painted(rows=ROWS)
    return [make_run(folder / kind.__name__ / "001", fitted(kind, data), DATA) for kind in (Painter, Dimming)]


@pytest.fixture(scope="module")
def comparison(runs) -> Comparison:
    return compare([load_trained(runs[0]), str(runs[1])], metrics=["cycles", "reversibility"], count=12)


def made(scores: dict[str, Score], **facts) -> Evaluation:
    descriptions = {name: Description("metres", "Lengths", direction=-1, attribute="k") for name in scores}
    return Evaluation("made", scores, descriptions, {"images": 9, "split": "test", "seed": 0} | facts)


def test_what_the_json_holds():
    content = made({"a": Score(1.5, 0.1, 9), "b": Score(math.inf, math.nan, 9, over_seeds=0.2)}, seeds=2).to_dict()
    assert content == {
        "a": 1.5,
        "b": None,
        "images": 9,
        "split": "test",
        "seed": 0,
        "seeds": 2,
        "standard_errors": {"a": 0.1},
        "standard_errors_over_seeds": {"b": 0.2},
        "about": {name: {"unit": "metres", "attribute": "k"} for name in "ab"},
    }


def test_the_frame_has_a_row_for_each_score():
    frame = made({"a": Score(1.5, 0.1, 9), "b": Score(2.0, 0.2, 8)}).to_frame()
    assert list(frame.index) == ["a", "b"]
    assert frame.loc["b", "value"] == 2.0
    assert frame.loc["b", "n"] == 8
    assert frame.loc["a", "unit"] == "metres"


def test_scores_that_tell_less_do_not_take_the_place_of_others(tmp_path):
    full = made({"a": Score(1.0, 0.1, 9), "b": Score(2.0, 0.1, 9)})
    names = [path.name for path in full.save(tmp_path)]
    assert names == ["metrics.json", "metrics-test.csv"]
    before = (tmp_path / "metrics.json").read_text()
    fewer_images = made({"a": Score(1.0, 0.1, 8), "b": Score(2.0, 0.1, 8)}, images=8)
    fewer_scores = made({"a": Score(3.0, 0.1, 9)})
    for less in (fewer_images, fewer_scores):
        assert [path.name for path in less.save(tmp_path)] == ["metrics-partial.json", "metrics-test-partial.csv"]
        assert (tmp_path / "metrics.json").read_text() == before
    assert made(full.scores, images=10).save(tmp_path)[0].name == "metrics.json"
    other_split = made(full.scores, split="val").save(tmp_path)
    assert [path.name for path in other_split] == ["metrics-val.json", "metrics-val.csv"]
    with pytest.raises(UserError) as refusal:
        full.save()
    assert refusal.value.argument == "folder"


def test_the_terminal_shows_scores_where_they_say():
    scores = {
        name: Score(value, 0.25, 9) for name, value in {"one": 1.0, "two": 2.0, "three": 4.0, "four": 9.0}.items()
    }
    cells = {
        "one": Cell("Lengths", "row", "column"),
        "two": Cell(row="both"),
        "three": Cell(row="both"),
        "four": None,
    }
    descriptions = {name: Description("metres", "Lengths", cell=cell) for name, cell in cells.items()}
    console = Console(record=True, width=100)
    show(Evaluation("made", scores, descriptions, {"images": 9, "split": "test", "seed": 0}), console)
    text = " ".join(console.export_text().split())
    assert text.index("Lengths, 9 test images, seed 0") < text.index("Other metrics")
    assert "1.000 ± 0.25" in text
    assert "3.000" in text  # the mean of two and three
    assert "9.000" not in text


def test_models_side_by_side(comparison, tmp_path):
    paths = comparison.save(tmp_path / "new")
    assert [path.name for path in paths] == ["ablation.png", "comparison.csv", "comparison.md", "comparison.html"]
    lines = {line["name"]: line for line in csv.DictReader((tmp_path / "new/comparison.csv").open())}
    frame = comparison.to_frame()
    assert list(frame.columns) == list(comparison.results) == ["Painter", "Dimming"]
    for name, result in comparison.results.items():
        assert {key: float(lines[key][name]) for key in lines} == pytest.approx(
            {key: score.value for key, score in result.scores.items()}, rel=1e-4, abs=1e-9
        )
        assert frame[name].to_dict() == {key: score.value for key, score in result.scores.items()}
        assert comparison.to_dict()[name] == result.to_dict()
    text = (tmp_path / "new/comparison.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| mse_x"))
    assert row.split("|")[2].strip().startswith("**")
    assert "**" not in row.split("|")[3]
    page = (tmp_path / "new/comparison.html").read_text()
    assert "<strong>" in page
    assert "data:image/png;base64," in page
    assert "http" not in page
    assert (tmp_path / "new/ablation.png").stat().st_size > 1000
    with pytest.raises(UserError) as refusal:
        comparison.save(tmp_path / "new")
    assert refusal.value.argument == "out"


def test_what_is_no_merit_has_no_best(comparison):
    flat = {row.name: row for rows in comparison.groups().values() for row in rows}
    assert flat["composition_l1/1"].best == {"Painter"}
    results = {name: made({"a": Score(1.0, 0.1, 9)}) for name in ("x", "y")}
    assert Comparison(results, comparison.ablation).groups()["Lengths"][0].best == {"x", "y"}


def test_names_are_escaped(comparison):
    results = {"<b>": made({"<i>": Score(1.0, 0.1, 9)}), "y": made({"<i>": Score(2.0, 0.1, 9)})}
    page = Comparison(results, comparison.ablation).html(b"\x89PNG" + bytes(30))
    assert "<b>" not in page
    assert "<i>" not in page
    assert "&lt;i&gt;" in page
    assert "<strong>1.000 ± 0.1</strong>" in page


def test_each_evaluation_is_told_as_it_is_done(runs):
    done = []
    compare(runs, metrics=["cycles"], count=4, each=lambda evaluation: done.append(evaluation.name))
    assert done == ["Painter", "Dimming"]


def test_what_cannot_be_compared_is_refused(runs, tmp_path):
    other = make_run(tmp_path / "other" / "001", fitted(Painter, Painted(rows=30)), DATA | {"init_args": {"rows": 30}})
    assumed = make_run(
        tmp_path / "assumed" / "001",
        fitted(Painter, Painted(rows=ROWS)),
        DATA | {"init_args": {"rows": ROWS, "seed": 3}},
    )
    foreign = make_run(tmp_path / "foreign" / "001", fitted(Painter, Painted(rows=ROWS)), DATA)
    (foreign / "config.yaml").write_text(yaml.safe_dump({"data": {"class_path": "tests.fakes.Noisy"}}))
    for models in (
        [runs[0]],
        [runs[0], runs[0]],
        [runs[0], load_trained(runs[0])],
        [runs[0], other],
        [runs[0], foreign],
    ):
        with pytest.raises(UserError) as refusal:
            compare(models, metrics=["cycles"], count=4)
        assert refusal.value.argument == "models"
    assert len(compare([runs[0], assumed], metrics=["cycles"], count=4).results) == 2  # assumed of the same images


def test_an_unfinished_run_is_refused(runs, tmp_path):
    run = make_run(tmp_path / "run" / "001", fitted(Painter, Painted(rows=ROWS)), DATA)
    (run / "finished.json").unlink()
    for model in (run, load_trained(run)):
        with pytest.raises(UserError) as refusal:
            evaluate(model, count=4)
        assert refusal.value.argument == "model"
    assert evaluate(run / "last.ckpt", metrics=["cycles"], count=4).facts["images"] == 4  # the model as it is now


def test_the_library_prints_nothing(runs, capsys):
    result = evaluate(runs[0], count=6)
    assert isinstance(load_trained(runs[0]), TrainedModel)
    assert {"mse_x", "minimality_cld/do(Bangs)"} <= result.scores.keys()
    assert {"reconstructions", "interpolations", "counterfactual_grid"} <= result.figures.keys()
    assert capsys.readouterr() == ("", "")
    assert json.loads(json.dumps(result.to_dict()))["images"] == 6
