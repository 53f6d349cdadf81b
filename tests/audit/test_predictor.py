"""What a predictor of attributes sees in an audit's counterfactuals."""

import math

import pytest
import pytorch_lightning as pl
import torch

from cfgen.attributes import Schema
from cfgen.audit.strength import (
    _choose,
    calibrated_strength,
    check_predictor,
    choose_predictor,
    judged_attributes,
    log_odds,
    read_pictures,
)
from cfgen.checkpoints import load_module
from cfgen.commands import audit
from cfgen.counterfactual import as_unit_float
from cfgen.effects import Sample
from cfgen.effects.strength import Strength
from cfgen.errors import UserError
from cfgen.interventions import Set, Shift
from cfgen.runs.calibration import AttributeCalibration, Calibration, Gap
from cfgen.runs.data import run_data
from cfgen.runs.model import load_trained
from cfgen.runs.own_predictor import OwnPredictor, accuracies
from cfgen.runs.provenance import fingerprint
from lightning_modules import Predictor
from tests.audit.shifting import counterfactuals, options, rows


@pytest.fixture(scope="module")
def predictor(data, tmp_path_factory):
    """Untrained, so that it is often wrong, with thresholds in the middle of its outputs for real images."""
    torch.manual_seed(0)
    module = Predictor(data.scm_spec, data.image_shape, width=0.05).eval()
    with torch.no_grad():
        outputs = module(as_unit_float(data.images("test")))
        list(module.parameters())[-1].sub_(outputs.median(dim=0).values.reshape(list(module.parameters())[-1].shape))
    return saved(module, tmp_path_factory.mktemp("predictor"))


def saved(module, folder):
    trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.strategy.connect(module)
    trainer.save_checkpoint(folder / "last.ckpt", weights_only=True)
    return folder


def test_recognised_is_what_the_predictor_reads_in_each_image(run, data, predictor, here):
    do = {"Bangs=1": {"Bangs": 1}, "Young=0,Pale_Skin=1": {"Young": 0, "Pale_Skin": 1}}
    more = ["--predictor", str(predictor), "--among", "Smiling=1", "--explain", "none", "--batch_size", "16"]
    assert audit.main(options(run, *more, "--out", "found", do=list(do))) == 0
    found = {(row["among"], row["change"]): row for row in rows(here / "found")}
    model, eyes = load_trained(run), load_module(predictor, Predictor).eval()
    x, a = as_unit_float(data.images("test")), data.columns("test")
    for text, wanted in do.items():
        made = eyes.read(counterfactuals(model, x, a, wanted, data.ids("test")))
        real = eyes.read(x)
        for among, members in (("everyone", a["Young"] >= 0), ("Smiling=1", a["Smiling"] == 1)):
            lists = {True: [], False: []}  # of real images that have it, of counterfactuals of those that do not
            for i in members.nonzero()[:, 0].tolist():
                has = all(a[k][i] == v for k, v in wanted.items())
                lists[has].append(all((real if has else made)[k][i] == v for k, v in wanted.items()))
            share = sum(lists[False]) / len(lists[False])
            assert float(found[among, text]["seen_as_asked"]) == pytest.approx(share, abs=1e-5)
            # real images that have it are weighted to be like the others
            assert min(lists[True]) <= float(found[among, text]["seen_in_real_images"]) <= max(lists[True])
        assert 0 < float(found["everyone", text]["seen_as_asked"]) < 1
    assert found["everyone", "brightness"]["seen_as_asked"] == ""


def test_a_predictor_that_cannot_judge_is_refused(run, data, here, capsys):
    spec = data.scm_spec | {
        "attributes": {"Hat": {"kind": "binary"}, "Bangs": {"kind": "continuous", "low": 0, "high": 1}}
    }
    other = Predictor(spec | {"edges": []}, data.image_shape, width=0.05)
    small = Predictor(data.scm_spec, (1, 28, 28), width=0.05)
    folders = {"a model": run}
    for name, module in (("other attributes", other), ("other images", small)):
        folders[name] = here / name
        folders[name].mkdir()
        saved(module, folders[name])
    for name, folder in folders.items():
        words = options(run, "--predictor", str(folder), "--count", "5", "--out", "found", do=["Bangs=1"])
        assert audit.main(words) == 2, name
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: --predictor: ")
        assert not (here / "found").exists()


def test_the_library_refuses_it_too(run, data, here):
    model, do = load_trained(run), [Set.from_values(data.schema, {"Bangs": 1})]
    spec = data.scm_spec | {
        "attributes": {"Hat": {"kind": "binary"}, "Bangs": {"kind": "continuous", "low": 0, "high": 1}}
    }
    other = Predictor(spec | {"edges": []}, data.image_shape, width=0.05)
    small = Predictor(data.scm_spec, (1, 28, 28), width=0.05)
    for bad in (run, other, saved(other, here), small, here / "nowhere"):
        for interventions in (do, None):
            with pytest.raises(UserError) as refused:
                check_predictor(bad, model, interventions)
            assert refused.value.argument == "predictor"
    with pytest.raises(UserError, match="none of the interventions is about these alone"):
        check_predictor(other, model, do)
    with pytest.raises(UserError, match="a calibration needs all attributes"):
        check_predictor(other, model, None)
    # one attribute that both know is enough for an audit
    part = Predictor({"attributes": {"Bangs": {"kind": "binary"}}, "edges": []}, data.image_shape, width=0.05)
    assert check_predictor(part, model, do) is part
    both = [Set.from_values(data.schema, {"Bangs": 1, "Young": 0})]
    with pytest.raises(UserError):
        check_predictor(part, model, both)
    assert check_predictor(part, model, [*both, *do]) is part
    assert [check_predictor(none, model, do) for none in (None, "train", "none")] == [None, None, None]


def test_of_a_continuous_attribute_the_value_is_read(tiny_run):
    """`thickness=3,label=7` is judged by the label alone, `thickness=3` by how thick the digit is."""
    digits = run_data(tiny_run)
    digits.setup()
    model = load_trained(tiny_run)
    eyes = Predictor(digits.scm_spec, digits.image_shape, width=0.1).eval()
    eyes.schema.fit_ranges(digits.train_columns)
    do = [Set("both", {"thickness": 3, "label": 7}), Set("thick", {"thickness": 3})]
    both, thick = (one.bind(model.schema) for one in do)
    assert [judged_attributes(model.schema, one.attributes) for one in (both, thick)] == [["label"], ["thickness"]]
    x, columns = digits.images("test")[:20], {name: column[:20] for name, column in digits.columns("test").items()}
    sample = Sample(model.schema, model.scm.graph, columns)
    readings = read_pictures(model.module, eyes, x, sample, [both, thick]).values
    for one, given in zip((both, thick), do, strict=True):
        x_c = model.counterfactual(x, model.values(columns), dict(given.values), seed=0).images
        expected, changed = eyes.read(x_c), torch.from_numpy(one.target(columns))
        for name in eyes.schema.names:
            read = torch.from_numpy(readings[one.name][name])
            torch.testing.assert_close(read[changed], expected[name][changed], rtol=1e-4, atol=1e-4)
            assert read[~changed].isnan().all()
        # the log-odds of the label
        seven = eyes(x_c)[:, eyes.schema.slices["label"]].softmax(dim=1)[:, 7]
        drawn = torch.from_numpy(readings[one.name][log_odds("label", 7)])[changed]
        torch.testing.assert_close(drawn, (seven.log() - (1 - seven).log())[changed], rtol=1e-3, atol=1e-3)
    assert log_odds("thickness", 3) not in readings["thick"]
    real = eyes.read(as_unit_float(x))
    for name in eyes.schema.names:
        torch.testing.assert_close(torch.from_numpy(readings["real"][name]), real[name], rtol=1e-4, atol=1e-4)


SIZES = Schema(
    {
        "size": {"kind": "continuous", "low": 0, "high": 9},
        "colour": {"kind": "categorical", "values": ["red", "blue"]},
        "Hat": {"kind": "binary"},
    }
)


def calibration(**strengths):
    """A calibration with these strengths; None where the predictor cannot judge."""
    rows = []
    for do, value in strengths.items():
        known = Strength(*([math.nan] * 3 if value is None else [value] * 3), 0.5, 0.9, 0.1, value is not None)
        rows.append(AttributeCalibration(do, 10, known, "", 0.0, Gap(0, 0, 0.0, 0.0)))
    return Calibration(rows, {}, {}, {"split": "val", "keep_residual": False})


def test_a_calibrated_strength_is_that_of_the_nearest_value_and_of_the_weakest_attribute():
    known = calibration(
        **{"size=1": 0.2, "size=5.5": 0.5, "size=8": 0.9, "colour=blue": 0.6, "Hat=1": None, "size=big": 0}
    )

    def value(intervention, columns):
        found = calibrated_strength(known, SIZES, intervention.arms(columns)[-1].values)
        return None if found is None else found.value if found.judged else "unknown"

    columns = {"size": torch.tensor([0.0, 1.0, 2.0]), "colour": torch.zeros(3), "Hat": torch.zeros(3)}
    assert value(Set.from_values(SIZES, {"size": 6}), columns) == 0.5
    assert value(Set.from_values(SIZES, {"colour": "blue"}), columns) == 0.6
    assert value(Set.from_values(SIZES, {"colour": "red"}), columns) is None
    assert value(Set.from_values(SIZES, {"size": 9, "colour": "blue"}), columns) == 0.6
    assert value(Set.from_values(SIZES, {"size": 2, "colour": "blue"}), columns) == 0.2
    assert value(Set.from_values(SIZES, {"size": 2, "Hat": 1}), columns) == "unknown"
    assert value(Set.from_values(SIZES, {"Hat": 0}), columns) is None
    shifted = Shift("size=+4", "size", 4.0).bind(SIZES, lambda name: 1.0)  # to 4, 5 and 6
    assert value(shifted, columns) == 0.5


def test_who_judges(run, data, predictor, monkeypatch):
    model, columns = load_trained(run), data.columns("test")
    do = [Set.from_values(data.schema, values) for values in ({"Bangs": 1}, {"Young": 0})]
    trained = []

    def own_predictor(*args, **options):
        trained.append(options)
        return OwnPredictor("trained", {"Bangs": 0.9}, None, True)

    monkeypatch.setattr(_choose, "own_predictor", own_predictor)

    def judge(given, known, keep_residual=False):
        monkeypatch.setattr(_choose, "read_calibration", lambda model: known)
        reader = check_predictor(given, model, do)
        return choose_predictor(reader, given, model, data, do, columns, keep_residual)

    both = calibration(**{"Bangs=1": 0.5, "Young=0": 0.7})
    for none in (None, "none"):
        assert judge(none, both) == (None, {}, None)
    given = judge(predictor, both)
    assert isinstance(given.predictor, Predictor)
    assert given.calibrated == {}
    assert given.facts["source"] == "given"
    assert given.facts["accuracy"] == accuracies(given.predictor, data)
    assert given.facts["sha256"] == fingerprint(None, given.predictor)
    assert judge("train", both) == (None, both.strengths, {"source": "calibration", "split": "val"})
    assert not trained
    own = ("trained", {}, {"source": "trained on the spot", "accuracy": {"Bangs": 0.9}})
    assert judge("train", both, keep_residual=True) == own
    assert judge("train", calibration(**{"Bangs=1": 0.5})) == own
    assert judge("train", None) == own
    assert len(trained) == 3
