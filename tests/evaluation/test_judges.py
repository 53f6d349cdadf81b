"""Judges: which are used, what a score of several is, and what those that come with cfgen can read."""

import json
import math
import os
import statistics
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import Tensor

from cfgen import checkpoints
from cfgen.checkpoints import CARD, load_module
from cfgen.errors import UserError
from cfgen.evaluation import Comparison, Evaluation, Score, compare, evaluate
from cfgen.evaluation.judges import Judges, load_judges
from cfgen.evaluation.metrics.base import Description
from cfgen.evaluation.metrics.effectiveness_predicted import EffectivenessPredicted
from cfgen.evaluation.metrics.labels import LabelAccuracy
from cfgen.evaluation.packaged import fitting_judges, package_judge, packaged_judges, reading_scores
from cfgen.evaluation.run import scores_of
from cfgen.evaluation.statistics import judged_score, mean_score, over_seeds
from cfgen.evaluation.terminal import show
from cfgen.processes import Processes
from datamodules import Faces, MorphoMNIST
from lightning_modules import CondALI, Predictor
from tests.evaluation.scoring import judged_digits, judged_faces, make_run, painted_run, passed, subject_of, table_of
from tests.fakes import Drawing, Painter, ReadStripes, fitted

METRICS = [EffectivenessPredicted, LabelAccuracy]
LIMIT = 1_500_000  # bytes, of all packaged judges together


class Wrong(ReadStripes):
    """Reads half of what there is."""

    def read(self, x: Tensor) -> dict[str, Tensor]:
        return super().read(x / 2)


def scored(judges: Judges, **options) -> dict[str, Score]:
    subject, _ = judged_digits(Drawing)
    made = [metric(subject, judges) for metric in METRICS]
    return scores_of(made, passed(METRICS, subject, judges, **options).table, Processes())


@pytest.fixture(scope="module")
def readers():
    schema = judged_digits()[0].schema
    return {"right": ReadStripes(schema), "wrong": Wrong(schema), "again": ReadStripes(schema)}


def test_a_score_is_the_mean_over_judges_with_the_lowest_and_the_highest(readers):
    together = scored(Judges(predictors=readers))
    alone = {name: scored(Judges(predictors={name: judge})) for name, judge in readers.items()}
    assert len(together) == 2 * 2 + 2 * 2 + 2
    for name, score in together.items():
        each = [alone[judge][name].value for judge in readers]
        assert score.judges == pytest.approx(each)
        assert score.value == pytest.approx(statistics.fmean(each))
        assert (score.lowest, score.highest) == pytest.approx((min(each), max(each)))
        assert score.judges[0] == score.judges[2]
    assert together["predicted/do(label)/thickness"].highest > together["predicted/do(label)/thickness"].lowest


def test_identical_judges_have_no_spread_and_say_no_more_than_one(readers):
    one = scored(Judges(predictors={"a": readers["right"]}))
    three = scored(Judges(predictors=dict.fromkeys("abc", readers["right"])))
    for name, score in three.items():
        assert score.lowest == score.highest == pytest.approx(score.value)
        assert score[:3] == pytest.approx(one[name][:3], nan_ok=True)  # nor is its standard error any smaller


def test_scores_do_not_depend_on_the_batch(readers):
    subject, _ = judged_digits(Drawing)
    whole, parts = (table_of(METRICS, subject, Judges(predictors=readers), batch_size=rows).values for rows in (80, 7))
    torch.testing.assert_close(whole, parts, rtol=1e-4, atol=1e-5)


def test_the_label_is_seen_by_the_classifier_or_else_by_the_judges(readers):
    judges = Judges(predictors=readers)
    found = scored(judges)
    assert found["accuracy/do(label)"] == found["predicted/do(label)/label"]
    assert found["accuracy/real images"] == found["predicted/floor/label"]
    _, with_classifier = judged_digits()
    by_classifier = scored(with_classifier)
    assert by_classifier["accuracy/do(label)"].judges == ()
    assert by_classifier["predicted/do(label)/label"].judges != ()
    subject, _ = judged_faces()  # has no categorical attribute
    assert LabelAccuracy.missing(subject, Judges(predictors=readers)) is not None


def test_an_attribute_is_scored_by_those_who_read_it(readers):
    """A judge of one attribute beside one of both."""
    subject, _ = judged_digits()
    other = ReadStripes(subject.schema)
    other.schema = type(subject.schema)({"label": subject.schema.spec["label"]})
    metric = EffectivenessPredicted(subject, Judges(predictors={"both": readers["right"], "label": other}))
    described = metric.descriptions()
    assert described["predicted/do(label)/label"].judges == ("both", "label")
    assert described["predicted/do(label)/thickness"].judges == ("both",)


def test_the_mean_over_seeds_is_that_of_each_judge():
    seeds = [{"a": judged_score(torch.tensor(rows))} for rows in ([[1.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]])]
    both = over_seeds(seeds)["a"]
    assert both.judges == (0.5, 0.5)
    assert both.value == 0.5
    assert judged_score(torch.ones(3)) == mean_score(torch.ones(3))._replace(judges=(1.0,))


def judged(values: dict[str, Score], **facts) -> Evaluation:
    described = {
        name: Description("share right", "Read", 1, judges=("p", "q")[: len(s.judges)]) for name, s in values.items()
    }
    return Evaluation("made", values, described, {"images": 9, "split": "test", "seed": 0} | facts)


def text_of(evaluation: Evaluation) -> str:
    console = Console(record=True, width=100)
    show(evaluation, console)
    return " ".join(console.export_text().split())


def test_the_range_of_judges_is_in_everything_that_is_written(tmp_path):
    score, plain = Score(0.75, 0.01, 9, judges=(0.5, 1.0)), Score(2.0, 0.1, 9)
    evaluation = judged({"a": score, "b": plain}, judges=["p", "q"])
    content = evaluation.to_dict()
    assert content["judges"] == ["p", "q"]
    assert content["scores_by_judge"] == {"a": {"p": 0.5, "q": 1.0}}
    frame = evaluation.to_frame()
    assert frame.loc["a", "lowest_judge"] == 0.5
    assert frame.loc["a", "highest_judge"] == 1.0
    assert math.isnan(frame.loc["b", "lowest_judge"])
    text = text_of(evaluation)
    assert "0.7500 ± 0.01 (0.5000 to 1.000)" in text
    assert "2.000 ± 0.1 " in text
    assert "Judges: p, q; in brackets, the lowest and the highest of them." in text
    from matplotlib.figure import Figure

    comparison = Comparison({"x": evaluation, "y": judged({"a": plain})}, Figure())
    comparison.save(tmp_path / "new")
    for file in ("comparison.md", "comparison.html"):
        written = (tmp_path / "new" / file).read_text()
        assert "0.7500 ± 0.01 (0.5000 to 1.000)" in " ".join(written.split())  # pages have spaces that do not break
        assert "Judges: p, q" in written
    assert "x lowest_judge" in (tmp_path / "new" / "comparison.csv").read_text().splitlines()[0]


def test_one_judge_has_no_range():
    text = text_of(judged({"a": Score(0.75, 0.01, 9, judges=(0.75,))}, judges=["p"]))
    assert "(0.75" not in text
    assert "Judges: p." in text


def test_data_that_no_judge_knows(tmp_path):
    """Nothing is judged, and the output says how to train a judge; unless none was wanted."""
    run = painted_run(tmp_path / "001")
    found = evaluate(run, count=6)
    assert found.facts["judges"] == []
    assert not [name for name in found.scores if name.startswith("predicted/")]
    assert "cfgen fit --config" in text_of(found)
    for options in ({"predictor": "none"}, {"predictor": []}, {"metrics": ["cycles"]}):
        quiet = evaluate(run, count=6, **options)
        assert "judges" not in quiet.facts
        assert "cfgen fit" not in text_of(quiet)


@pytest.fixture(scope="module")
def faces(tmp_path_factory) -> Faces:
    data = Faces(
        count=2000, cache_dir=str(tmp_path_factory.mktemp("faces")), seed=5
    )  # others than judges were trained on
    data.prepare_data()
    data.setup()
    return data


def test_judges_are_chosen_by_data_shape_and_attributes(faces, digits_cache, tmp_path):
    digits = MorphoMNIST(limit=300, cache_dir=str(digits_cache))
    digits.prepare_data()
    digits.setup()
    of_digits = subject_of(fitted(CondALI, digits, width=0.05), digits)
    of_faces = subject_of(fitted(Painter, faces), faces, count=4)
    assert fitting_judges(of_digits) == [name for name in packaged_judges() if name.startswith("morphomnist-")]
    assert fitting_judges(of_faces) == [name for name in packaged_judges() if name.startswith("faces-")]
    small = Faces(count=60, image_size=32, cache_dir=str(tmp_path))
    small.prepare_data()
    assert fitting_judges(subject_of(fitted(Painter, small), small)) == []
    assert fitting_judges(judged_digits()[0]) == []
    with pytest.raises(UserError, match="sees images of shape") as refused:
        load_judges(of_digits, predictors=["faces-residual-0"])
    assert refused.value.argument == "predictor"
    assert set(load_judges(of_digits).predictors) == set(fitting_judges(of_digits))
    assert load_judges(of_digits, predictors=()).predictors == {}


def claimed(name: str) -> dict[str, float]:
    return json.loads((checkpoints.PACKAGED / "judges" / name / "metrics.json").read_text())


def test_packaged_judges_are_of_two_families_and_small():
    for data in ("morphomnist", "faces"):
        names = [name for name in packaged_judges() if name.startswith(data)]
        judges = [load_module(checkpoints.PACKAGED / "judges" / name, Predictor) for name in names]
        assert len(judges) == 3
        assert {judge.hparams["network"] for judge in judges} == {"residual", "patches"}
        assert all(judge.hparams["augment"] > 0 for judge in judges)
    files = [file for file in (checkpoints.PACKAGED / "judges").glob("**/*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) <= LIMIT


@pytest.mark.parametrize("name", ["faces-residual-0", "faces-patches-1", "faces-residual-2"])
def test_packaged_judges_read_faces_as_claimed(name, faces):
    """Faces that nobody has seen: drawn with another seed."""
    judge = load_module(checkpoints.PACKAGED / "judges" / name, Predictor).eval()
    found, said = reading_scores(judge, faces, "val"), claimed(name)
    assert len(found) == 15
    assert statistics.fmean(found.values()) == pytest.approx(statistics.fmean(said[k] for k in found), abs=0.015)
    assert statistics.fmean(said[k] for k in found) > 0.99


@pytest.mark.parametrize("name", ["morphomnist-residual-0", "morphomnist-patches-1", "morphomnist-residual-2"])
def test_packaged_judges_read_digits_as_claimed(name):
    root = os.environ.get("CFGEN_DATA", "")
    if not (Path(root) / "morphomnist_deepscm").is_dir():
        pytest.skip("needs the published Morpho-MNIST in the folder that CFGEN_DATA names")
    data = MorphoMNIST("published")
    data.prepare_data()
    data.setup("fit")
    judge = load_module(checkpoints.PACKAGED / "judges" / name, Predictor).eval()
    found, said = reading_scores(judge, data, "val"), claimed(name)
    assert found == pytest.approx({k: said[k] for k in found}, rel=1e-3)
    assert said["label"] > 0.985
    assert said["images"] == len(data.images("val"))


def test_a_run_becomes_a_judge(digits_cache, tmp_path, monkeypatch):
    options = {"limit": 300, "cache_dir": str(digits_cache)}
    data = MorphoMNIST(**options)
    data.prepare_data()
    data.setup()
    torch.manual_seed(0)
    predictor = Predictor(data.scm_spec, data.image_shape, width=0.3, network="patches")
    predictor.schema.fit_ranges(data.train_columns)
    section = {"class_path": "datamodules.MorphoMNIST", "init_args": options}
    run = make_run(tmp_path / "run" / "001", predictor, section)
    config = {"data": section, "model": {"class_path": "lightning_modules.Predictor", "init_args": {}}}
    (run / "config.yaml").write_text(json.dumps(config))
    monkeypatch.setattr(checkpoints, "PACKAGED", tmp_path / "weights")
    package_judge(run, tmp_path / "weights" / "judges" / "mine")
    assert packaged_judges() == ["mine"]
    assert (tmp_path / "weights" / "judges" / "mine" / CARD).is_file()
    loaded = load_module(tmp_path / "weights" / "judges" / "mine", Predictor).eval()
    assert torch.equal(loaded.schema.low, predictor.schema.low)  # in real units, so not rounded
    x = data.images("val").float() / 255
    for attribute, column in predictor.eval().read(x).items():
        if attribute != "label":
            low, high = predictor.schema.bounds(attribute)
            torch.testing.assert_close(loaded.read(x)[attribute], column, rtol=0, atol=0.01 * (high - low))
    subject = subject_of(fitted(CondALI, data, width=0.05), data)
    assert list(load_judges(subject).predictors) == ["mine"]


def test_models_are_compared_by_the_same_judges(tmp_path):
    runs = [painted_run(tmp_path / name / "001", kind) for name, kind in (("a", Painter), ("b", Drawing))]
    comparison = compare(
        runs, metrics=["effectiveness"], count=6, predictor=[ReadStripes(s) for s in [judged_faces()[0].schema] * 2]
    )
    assert comparison.results["a"].facts["judges"] == ["ReadStripes", "ReadStripes 2"]
    assert comparison.to_dict()["b"]["scores_by_judge"].keys() == comparison.to_dict()["a"]["scores_by_judge"].keys()
