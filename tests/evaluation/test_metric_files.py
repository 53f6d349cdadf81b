"""Metrics describe themselves and say what they need; a new one is one file."""

import json
import sys

import pytest
from rich.console import Console

from cfgen.errors import UserError
from cfgen.evaluation import evaluate, metrics
from cfgen.evaluation.judges import Judges
from cfgen.evaluation.metrics import metric_classes, metric_names
from cfgen.evaluation.metrics.effectiveness_measured import EffectivenessMeasured
from cfgen.evaluation.metrics.effectiveness_predicted import EffectivenessPredicted
from cfgen.evaluation.run import choose
from cfgen.evaluation.terminal import show
from tests.evaluation.scoring import ROWS, judged_digits, judged_faces, painted_run, subject_of, table_of
from tests.fakes import Painted, Painter, ReadStripes, fitted


def test_every_metric_describes_itself():
    for made in (judged_digits, judged_faces):
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
    judges = Judges(predictors={"stripes": ReadStripes(data.schema, data.image_shape)})
    assert choose(["effectiveness"], subject, judges) == [EffectivenessPredicted]
    table = table_of([EffectivenessPredicted], subject, judges)
    assert table["predicted/do(height)/height"].max() < 0.05


@pytest.mark.parametrize("name", ["labels", "bias", "truth", "fid", "identity"])
def test_a_metric_that_lacks_what_it_needs_is_refused_by_name_alone(name):
    subject, _ = judged_digits()
    assert name not in {metric.name for metric in choose(None, subject, Judges())}
    with pytest.raises(UserError) as refusal:
        choose(["cycles", name], subject, Judges())
    assert refusal.value.argument == "metrics"
    assert str(refusal.value).startswith(f"{name} needs")
