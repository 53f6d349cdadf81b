"""Laws of an evaluation: what is decoded, what values depend on, what is refused; and that a metric is one file."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

from cfgen.errors import UserError
from cfgen.evaluation import evaluate, metrics
from cfgen.evaluation.judges import Judges
from cfgen.evaluation.metrics import metric_classes, metric_names
from cfgen.evaluation.metrics.bias import ClassifierBias
from cfgen.evaluation.metrics.commutativity import Commutativity
from cfgen.evaluation.metrics.cycles import Cycles
from cfgen.evaluation.metrics.effectiveness_measured import EffectivenessMeasured
from cfgen.evaluation.metrics.effectiveness_predicted import EffectivenessPredicted
from cfgen.evaluation.metrics.labels import LabelAccuracy
from cfgen.evaluation.metrics.minimality import Minimality
from cfgen.evaluation.metrics.reversibility import Reversibility
from cfgen.evaluation.metrics.truth import Truth
from cfgen.evaluation.run import choose
from cfgen.evaluation.terminal import show
from cfgen.evaluation.threads import in_threads
from cfgen.processes import Processes
from tests.evaluation.scoring import Share, make_run, passed, subject_of, table_of
from tests.fakes import DIGITS, FACES, Drawing, Measured, Painted, Painter, ReadStripes, Stripes, fitted
from tests.processes import Pool

ROWS = 80
OF_DIGITS = [
    EffectivenessMeasured,
    EffectivenessPredicted,
    LabelAccuracy,
    Cycles,
    Reversibility,
    Commutativity,
    Minimality,
]
OF_FACES = [EffectivenessPredicted, Truth, Cycles, Reversibility, Commutativity, Minimality, ClassifierBias]


class Counting(Drawing):
    """Counts what is decoded, by the bits of what was drawn for the image, and of the attributes."""

    decoded: ClassVar[Counter[bytes]] = Counter()
    abducted = 0

    def abduct(self, x: Tensor, a: Tensor, noise=None):
        Counting.abducted += len(x)
        return super().abduct(x, a, noise)

    def decode(self, z, a: Tensor) -> Tensor:
        for row in range(len(a)):
            Counting.decoded[z["drawn"][0][row].numpy().tobytes() + a[row].numpy().tobytes()] += 1
        return super().decode(z, a)

    def latent(self, state) -> Tensor:
        return state["z"]


class Known(Painted):
    """Knows its true counterfactuals: the attributes change, the background stays."""

    def true_attributes(self, split, rows, do):
        return {k: column[rows] for k, column in self.columns(split).items()} | dict(do)

    def true_counterfactual(self, split, rows, a_c):
        mechanism = fitted(Painter, self)
        x, a = self.images(split)[rows] / 255, self.schema.encode(self.columns(split))[rows]
        with torch.no_grad():
            return mechanism.decode(mechanism.abduct(x, a), a_c).mul(255).round().clamp(0, 255).to(torch.uint8)


class ReadLabel(nn.Module):
    """A classifier of labels that reads them from stripes, with an eye for all classes."""

    classes = 3

    def __init__(self, predictor: ReadStripes) -> None:
        super().__init__()
        self.predictor = predictor

    def predict(self, x: Tensor) -> Tensor:
        return self.predictor.read(x)["label"].long()


def digits(kind=Counting):
    data = Measured(attributes=DIGITS, rows=ROWS)
    subject = subject_of(fitted(kind, data), data)
    predictor = ReadStripes(data.schema)
    return subject, Judges(classifier=ReadLabel(predictor), predictor=predictor)


def faces(kind=Counting):
    data = Known(attributes=FACES, edges=[("Black_Hair", "Bangs")], rows=ROWS)
    subject = subject_of(fitted(kind, data), data)
    return subject, Judges(classifier=Stripes([3.1, -1.3, 2.7, 0.13]), predictor=ReadStripes(data.schema))


CASES = [pytest.param(OF_DIGITS, digits, id="digits"), pytest.param(OF_FACES, faces, id="faces")]


@pytest.mark.parametrize(("chosen", "made"), CASES)
def test_values_depend_on_the_image_and_the_seed_alone(chosen, made):
    """Neither on the batch size nor on the number of processes, also where the mechanism draws its states."""
    subject, judges = made()
    whole = table_of(chosen, subject, judges, seed=2, batch_size=ROWS, values=2)
    assert len(whole.slices) > 20
    assert not whole.values[:, 0].isnan().all()
    for batch_size in (7, 50, 256):
        table = table_of(chosen, subject, judges, seed=2, batch_size=batch_size, values=2)
        torch.testing.assert_close(table.values, whole.values, equal_nan=True, rtol=1e-4, atol=1e-5)
    halves = [table_of(chosen, subject, judges, seed=2, processes=Share(i, 2), batch_size=9, values=2) for i in (0, 1)]
    together = halves[0].values + halves[1].values
    torch.testing.assert_close(together, whole.values, equal_nan=True, rtol=1e-4, atol=1e-5)
    other = table_of(chosen, subject, judges, seed=3, values=2)
    assert not torch.allclose(other.values, whole.values, equal_nan=True)


@pytest.mark.parametrize(("chosen", "made"), CASES)
def test_each_counterfactual_is_decoded_once(chosen, made):
    """However many metrics ask for it; and each image is abducted once, each counterfactual at most once more."""
    subject, judges = made()
    attributes = len(subject.schema.names)
    askers = [metric for metric in chosen if metric not in (Cycles, Reversibility, Commutativity)]
    Counting.decoded.clear()
    Counting.abducted = 0
    table_of(askers, subject, judges, batch_size=32)
    assert max(Counting.decoded.values()) == 1
    reconstructed = ROWS * any(metric in (Truth, ClassifierBias) for metric in askers)
    assert Counting.decoded.total() == ROWS * attributes + reconstructed
    assert Counting.abducted == ROWS
    Counting.abducted = 0
    table_of([*askers, Reversibility, Commutativity], subject, judges, batch_size=32)
    assert Counting.abducted == ROWS * (1 + attributes)


def test_composition_starts_from_the_reconstruction():
    subject, judges = faces()
    Counting.decoded.clear()
    table_of([Truth, Cycles], subject, judges)
    assert Counting.decoded.total() == ROWS * (len(FACES) + 10 + 1)  # x_r is the first of ten cycles; one latent


def test_latents_are_drawn_an_image_at_a_time():
    subject, judges = faces()
    first = subject_of(subject.mechanism, subject.data, count=10)
    few, many = (table_of([Cycles], one, judges)["mae_z"] for one in (first, subject))
    torch.testing.assert_close(few, many[:10])


def test_threads_change_nothing():
    """As many batches side by side as torch has threads, in their order, and torch is left as it was."""
    threads = torch.get_num_threads()
    subject, judges = digits()
    try:
        torch.set_num_threads(1)
        one = table_of(OF_DIGITS, subject, judges, batch_size=16)
        torch.set_num_threads(3)
        assert list(in_threads(lambda k: (k, torch.get_num_threads()), range(20), torch.device("cpu"))) == [
            (k, 1) for k in range(20)
        ]
        several = table_of(OF_DIGITS, subject, judges, batch_size=16)
        assert torch.get_num_threads() == 3
        with pytest.raises(ZeroDivisionError):
            list(in_threads(lambda k: 1 / k, range(5), torch.device("cpu")))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)
    torch.testing.assert_close(several.values, one.values, equal_nan=True, rtol=1e-5, atol=1e-6)


def test_every_metric_describes_itself():
    for made in (digits, faces):
        subject, judges = made()
        chosen = choose(None, subject, judges)
        assert {metric.name for metric in chosen} <= set(metric_names())
        for kind in chosen:
            assert kind.__module__.rpartition(".")[2].partition("_")[0] == kind.name
            assert kind.reduction in ("mean", "median")
            assert kind.title
            assert kind.unit is not None
            described = kind(subject, judges).descriptions()
            assert described
            assert all(what.direction in (-1, 0, 1) for what in described.values())
            assert not any(what.baseline and what.direction for what in described.values())
    assert {kind.name for kind in metric_classes()} == set(metric_names())


BRIGHTNESS = """
from cfgen.evaluation.metrics.base import Metric


class Brightness(Metric):
    name = "brightness"
    title = "How bright images are"
    unit = "share of white"

    def descriptions(self):
        return {"brightness/real": self.describe(direction=1)}

    def update(self, batch):
        return {"brightness/real": batch.x.flatten(1).mean(dim=1)}
"""


def test_a_metric_is_one_file(tmp_path, monkeypatch):
    """Found, chosen, scored, shown and written, with nothing else changed."""
    (tmp_path / "brightness.py").write_text(BRIGHTNESS)
    monkeypatch.setattr(metrics, "__path__", [*metrics.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "cfgen.evaluation.metrics.brightness", raising=False)
    data = Painted(rows=ROWS)
    run = painted_run(tmp_path / "run" / "001")
    try:
        assert "brightness" in metric_names()
        result = evaluate(run, metrics=["brightness"])
    finally:
        sys.modules.pop("cfgen.evaluation.metrics.brightness", None)
    data.setup()
    mean = (data.images("test") / 255).mean().item()
    assert result.scores["brightness/real"].value == pytest.approx(mean)
    assert result.scores["brightness/real"].n == ROWS
    console = Console(record=True, width=100)
    show(result, console)
    assert "brightness/real" in console.export_text()
    result.save()
    written = json.loads((run / "metrics.json").read_text())
    assert written["brightness/real"] == pytest.approx(mean)
    assert written["about"]["brightness/real"] == {"unit": "share of white", "attribute": None}


def test_nothing_is_measured_by_its_name():
    """Colour pictures with a height and a width of something: a predictor is needed to say what counterfactuals have."""
    attributes = {name: {"kind": "continuous", "low": 0.0, "high": 2.0} for name in ("height", "width")}
    data = Painted(attributes=attributes, image_shape=(3, 16, 16), rows=ROWS)
    subject = subject_of(fitted(Painter, data), data)
    assert EffectivenessMeasured not in choose(None, subject, Judges())
    with pytest.raises(UserError) as refusal:
        choose(["effectiveness"], subject, Judges())
    assert refusal.value.argument == "metrics"
    assert "predictor" in str(refusal.value)
    judges = Judges(predictor=ReadStripes(data.schema, data.image_shape))
    assert choose(["effectiveness"], subject, judges) == [EffectivenessPredicted]
    table = table_of([EffectivenessPredicted], subject, judges)
    assert table["predicted/do(height)/height"].max() < 0.05


@pytest.mark.parametrize("name", ["labels", "bias", "truth", "fid"])
def test_a_metric_that_lacks_what_it_needs_is_refused_by_name_alone(name):
    subject, _ = digits()
    assert name not in {metric.name for metric in choose(None, subject, Judges())}
    with pytest.raises(UserError) as refusal:
        choose(["cycles", name], subject, Judges())
    assert refusal.value.argument == "metrics"
    assert str(refusal.value).startswith(f"{name} needs")


def painted_run(folder: Path, kind=Painter) -> Path:
    data = Painted(rows=ROWS)
    return make_run(folder, fitted(kind, data), {"class_path": "tests.fakes.Painted", "init_args": {"rows": ROWS}})


def scored(folder: str, devices: int):
    """In a process of its own: all scores, one of them a FID, and the names of the figures."""
    processes = Processes("cpu", devices)
    result = evaluate(
        folder, count=31, batch_size=6, fid="tests.evaluation.scoring:Bands", processes=processes, seeds=2
    )
    return processes.share, result.to_dict(), sorted(result.figures)


@pytest.mark.xdist_group("two_processes")
def test_two_processes_score_like_one(tmp_path, two_processes: Pool):
    run = painted_run(tmp_path / "001", Drawing)
    _, one, drawn = scored(str(run), 1)
    (first, two, _), (second, other, others) = two_processes.run(scored, str(run), 2)
    assert [first, second] == [(0, 2), (1, 2)]
    assert two == other
    assert drawn == others
    assert one.keys() == two.keys()
    for name, value in one.items():
        if isinstance(value, float):
            assert two[name] == pytest.approx(value, rel=1e-4, abs=1e-5), name
    assert "fid_Bands/generated" in one


def test_more_processes_than_images():
    subject, judges = digits()
    one = subject_of(subject.mechanism, subject.data, count=1)
    assert passed([Cycles], one, judges, processes=Share(1, 2)).table.values.abs().sum() == 0


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"metrics": ["cycle"]}, "metrics"),
        ({"metrics": "cycles"}, "metrics"),
        ({"split": "train"}, "split"),
        ({"count": 0}, "count"),
        ({"seeds": 0}, "seeds"),
        ({"seed": -1}, "seed"),
        ({"values": 0}, "values"),
        ({"fid": "nothing"}, "fid"),
        ({"fid": "tests.evaluation.scoring:Bands", "count": 1}, "fid"),
        ({"classifier": "nowhere"}, "classifier"),
        ({"predictor": "nowhere"}, "predictor"),
    ],
)
def test_bad_arguments_are_named(tmp_path, options, argument):
    run = painted_run(tmp_path / "001")
    with pytest.raises(UserError) as refusal:
        evaluate(run, **options)
    assert refusal.value.argument == argument
    assert not (run / "metrics.json").exists()


def test_a_model_without_data_is_refused(tmp_path):
    from cfgen.runs.model import TrainedModel

    for model in (TrainedModel(fitted(Painter, Painted(rows=ROWS))), tmp_path / "nowhere"):
        with pytest.raises(UserError) as refusal:
            evaluate(model)
        assert refusal.value.argument == "model"
