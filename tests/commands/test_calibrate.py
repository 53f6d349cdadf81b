"""`cfgen calibrate`: strengths that are known by construction, the file beside the model, cards, and what is refused."""

import json
import math
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

import cfgen
from cfgen import checkpoints
from cfgen.audit.strength import calibrate as measure
from cfgen.commands import calibrate, export
from cfgen.commands.calibrate import show
from cfgen.errors import UserError
from cfgen.processes import Processes
from cfgen.runs import own_predictor as own
from cfgen.runs.calibration import Calibration, model_fingerprint, read_calibration
from cfgen.runs.data import run_data
from cfgen.runs.model import TrainedModel, load_trained
from lightning_modules import Predictor
from tests.fakes import BINARY, DIGITS, FACES, Dimming, Ignorant, Painted, Painter, ReadStripes, fitted, saved
from tests.refusals import refusal

PAINTED = 0.5  # how bright the data paints every attribute
SHARP = pytest.approx(1, abs=1e-6)


class Mixed(Painter):
    """Gives black hair to whoever has bangs."""

    def decode(self, z, a):
        mixed = a.clone()
        mixed[:, 0] = torch.maximum(a[:, 0], a[:, 2])
        return super().decode(z, mixed)


def exported(kind, folder, attributes=FACES, edges=(), strength=PAINTED, rows=400):
    """A model of painted images in a folder of its own, as `cfgen.load` finds it."""
    options = {"attributes": attributes, "edges": [list(edge) for edge in edges], "rows": rows}
    data = Painted(**options)
    module = fitted(kind, data, strength=strength)
    TrainedModel(module).save(folder)
    data_section = {"class_path": "tests.fakes.Painted", "init_args": options}
    config = {"data": data_section, "model": {"class_path": checkpoints.class_path(module), "init_args": {}}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    return cfgen.load(folder)


def eyes(model):
    return ReadStripes(model.schema, model.module.image_shape)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(own, "RECIPES", {28: own.Recipe(epochs=8)})
    return tmp_path


@pytest.fixture
def model(here):
    return exported(Painter, here / "painter")


def test_a_model_that_draws_everything_is_at_full_strength(model):
    found = model.calibrate(predictor=eyes(model))
    assert list(found.strengths) == [f"{name}={value}" for name in FACES for value in (1, 0)]
    for row in found.drawn:
        assert row.strength.judged
        assert row.strength.value == SHARP
        assert row.images == int((data_column(model, row.do) != int(row.do[-1])).sum())
        assert row.side_effect_size == pytest.approx(0, abs=1e-6)
        assert row.gap.differ == 0
    assert found.gap.rms == pytest.approx(0, abs=1e-3)  # regressions are shrunk a little
    assert found.turned == dict.fromkeys(FACES, 0.0)
    assert found.accuracy == dict.fromkeys(FACES, SHARP)
    assert (found.split, found.keep_residual) == ("val", False)


def data_column(model, do, split="val"):
    data = run_data(model.source)
    data.setup()
    return data.columns(split)[do.partition("=")[0]]


def test_an_attribute_that_is_not_drawn_has_no_strength(here):
    model = exported(Painter, here / "weak", strength=[PAINTED, PAINTED, 0.0])
    found = model.calibrate(predictor=eyes(model), count=300)
    for do, strength in found.strengths.items():
        assert strength.value == (pytest.approx(0, abs=1e-6) if do.startswith("Bangs") else SHARP)
    worst = max(found.drawn, key=lambda row: row.gap.rms)
    assert worst.do.startswith("Bangs")
    assert worst.gap.differ == 1  # the reading of Bangs, and no other
    assert found.gap.readings == 6 * 3
    assert found.facts["images"] == 300


def test_continuous_and_categorical_attributes(here):
    """Thickness is painted half as bright as in the data, so that readings move half as far."""
    model = exported(Painter, here / "digits", DIGITS, strength=[PAINTED / 2, PAINTED, PAINTED, PAINTED])
    found = model.calibrate(predictor=eyes(model))
    names = [do.partition("=")[0] for do in found.strengths]
    assert names == ["thickness"] * 3 + ["label"] * 3
    quantiles = np.quantile(data_column(model, "thickness"), (0.1, 0.5, 0.9))
    assert [float(do.partition("=")[2]) for do in list(found.strengths)[:3]] == pytest.approx(quantiles, rel=1e-3)
    for do, strength in found.strengths.items():
        assert strength.value == (pytest.approx(0.5, abs=0.02) if do.startswith("thickness") else SHARP)
    assert found.turned.keys() == {"label"}


def test_what_moves_with_it_is_named_unless_it_is_caused(here):
    alone = exported(Mixed, here / "alone")
    found = {row.do: row for row in alone.calibrate(predictor=eyes(alone)).drawn}
    assert found["Bangs=1"].side_effect == "Black_Hair"
    assert found["Bangs=1"].side_effect_size == pytest.approx(
        (data_column(alone, "Black_Hair")[data_column(alone, "Bangs") == 0] == 0).float().mean().item()
    )
    caused = exported(Mixed, here / "caused", edges=[("Bangs", "Black_Hair")])
    found = {row.do: row for row in caused.calibrate(predictor=eyes(caused)).drawn}
    assert found["Bangs=1"].side_effect_size == pytest.approx(0, abs=1e-6)


def test_what_the_predictor_confuses_is_not_held_against_the_model(model):
    class Confused(ReadStripes):
        """Takes bangs for pale skin, in real images too."""

        def read(self, x):
            found = super().read(x)
            return found | {"Pale_Skin": torch.maximum(found["Pale_Skin"], found["Bangs"])}

    rows = {row.do: row for row in model.calibrate(predictor=Confused(model.schema)).drawn}
    assert abs(rows["Bangs=1"].side_effect_size) < 0.1
    assert rows["Bangs=1"].gap.differ == 0


def test_what_the_reconstruction_turns_and_what_keeping_the_residual_mends(here):
    model = exported(Dimming, here / "dim", strength=[-0.1] * 3)  # its reconstruction shows no attribute
    plain, kept = (model.calibrate(predictor=eyes(model), keep_residual=keep) for keep in (False, True))
    assert plain.turned == {name: pytest.approx(data_column(model, name).mean().item()) for name in FACES}
    assert kept.turned == plain.turned
    assert kept.keep_residual
    for row in (*plain.drawn, *kept.drawn):  # what the reconstruction loses is no effect of what is asked
        assert abs(row.side_effect_size) < 1e-6


def test_a_predictor_that_knows_nothing_does_not_judge(model):
    class Blind(ReadStripes):
        def read(self, x):
            return {name: (x.mean((1, 2, 3)) > 0.35).float() for name in self.schema.names}

    found = model.calibrate(predictor=Blind(model.schema))
    assert not any(strength.judged for strength in found.strengths.values())
    text = json.dumps(found.to_dict(), allow_nan=False)
    assert repr(Calibration.from_dict(json.loads(text)).strengths) == repr(found.strengths)
    assert found.to_frame()["strength"].isna().all()


def test_numbers_do_not_depend_on_the_batch(model):
    one, other = (model.calibrate(predictor=eyes(model), batch_size=size) for size in (7, 400))
    assert one.to_dict() == other.to_dict()


def in_a_process(folder):
    model = load_trained(folder)
    return measure(model, predictor=eyes(model), processes=Processes("cpu", 2)).to_dict()


@pytest.mark.slow
@pytest.mark.xdist_group("two_processes")
def test_two_processes_find_what_one_does(two_processes, model):
    one, other = two_processes.run(in_a_process, model.folder)
    assert one == other == model.calibrate(predictor=eyes(model)).to_dict()


def test_it_is_kept_beside_the_model_it_is_of(model, here):
    assert read_calibration(model) is None
    found = model.calibrate(predictor=eyes(model))
    assert found.save(model.folder) == model.folder / "calibration.json"
    assert read_calibration(cfgen.load(model.folder)).to_dict() == found.to_dict()
    frame = found.to_frame()
    assert frame.loc["Bangs=0", "strength"] == SHARP
    assert str(here) not in (model.folder / "calibration.json").read_text()
    with torch.no_grad():
        model.module.stripes.mul_(0.9)
    assert read_calibration(model) is None
    (model.folder / "calibration.json").write_text("{torn")
    assert read_calibration(cfgen.load(model.folder)) is None
    assert read_calibration(TrainedModel(model.module)) is None


def test_a_run_its_checkpoint_and_its_export_are_one_model(tiny_run, here):
    run, checkpoint = cfgen.load(tiny_run), cfgen.load(tiny_run / "best.ckpt")
    assert export.main([str(tiny_run), "given"]) == 0
    assert model_fingerprint(run) == model_fingerprint(checkpoint) == model_fingerprint(cfgen.load("given"))


def test_the_command(model, capsys):
    assert calibrate.main([str(model.folder), "--accelerator", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "Pale_Skin=1" in out
    assert f"calibration: {model.folder / 'calibration.json'}" in out
    found = read_calibration(model)
    assert found.facts["predictor"]["trained"] == "on the spot"
    assert found.facts["images"] == 400
    assert (model.folder / own.FOLDER / own.FILE).is_file()
    # the predictor it trained, named
    words = [
        str(model.folder),
        "--predictor",
        str(model.folder / own.FOLDER),
        "--accelerator",
        "cpu",
        "--out",
        "elsewhere",
    ]
    assert calibrate.main([*words, "--split", "test", "--count", "200", "--seed", "3", "--keep_residual"]) == 0
    elsewhere = json.loads(Path("elsewhere/calibration.json").read_text())
    assert (elsewhere["split"], elsewhere["images"], elsewhere["seed"], elsewhere["keep_residual"]) == (
        "test",
        200,
        3,
        True,
    )
    assert elsewhere["predictor"] == found.facts["predictor"] | {"trained": "before"}


def test_the_weakest_comes_first(here, capsys):
    model = exported(Painter, here / "weak", strength=[PAINTED, PAINTED, 0.0])
    show(model.calibrate(predictor=eyes(model)))
    lines = [line.split()[0] for line in capsys.readouterr().out.splitlines() if "=" in line]
    assert {line.partition("=")[0] for line in lines[:2]} == {"Bangs"}


def test_what_cannot_be_done_is_refused_in_one_line(model, here, capsys):
    words = [str(model.folder), "--accelerator", "cpu"]
    refusal(calibrate.main, ["nowhere"], capsys, "MODEL")
    refusal(calibrate.main, [*words, "--predictor", "nowhere"], capsys, "predictor")
    refusal(calibrate.main, [*words, "--predictor", str(model.folder)], capsys, "predictor")
    refusal(calibrate.main, [*words, "--split", "train"], capsys, "split")
    refusal(calibrate.main, [*words, "--count", "0"], capsys, "count")
    other = Predictor({"attributes": {"Hat": BINARY}, "edges": [], "mechanisms": {}}, (1, 28, 28), width=0.1)
    line = refusal(calibrate.main, [*words, "--predictor", saved(other, here / "other.ckpt")], capsys, "predictor")
    assert "Bangs" in line
    for options in ({"count": 0}, {"split": "train"}, {"seed": -1}, {"batch_size": 0}):
        with pytest.raises(UserError) as refused:
            model.calibrate(**options)
        assert refused.value.argument in options
    with pytest.raises(UserError):
        cfgen.CounterfactualModel(model.module).calibrate()


def test_an_earlier_calibration_stays_where_a_new_one_fails(model, monkeypatch):
    model.calibrate(predictor=eyes(model)).save(model.folder)
    before = (model.folder / "calibration.json").read_bytes()
    monkeypatch.setattr(Painter, "decode", lambda *args: 1 / 0)
    assert calibrate.main([str(model.folder), "--accelerator", "cpu"]) == 1
    assert (model.folder / "calibration.json").read_bytes() == before


def test_an_export_and_its_card_carry_it(here):
    model = exported(Ignorant, here / "ignorant")
    model.calibrate(predictor=eyes(model)).save(model.folder)
    assert export.main(["ignorant", "given", "--limits", "Draws nothing."]) == 0
    given = cfgen.load("given")
    assert read_calibration(given).strengths == read_calibration(model).strengths
    card = Path("given/README.md").read_text()
    assert "## How strongly it draws each attribute" in card
    assert "| Bangs=1 | 0 % |" in card
    other = model.calibrate(predictor=eyes(model), count=200)
    other.save("given")
    renewed = Path("given/README.md").read_text()
    assert renewed == card.replace("400 val images", "200 val images").replace(*differing(card, renewed))
    assert renewed.count("## How strongly") == 1
    assert renewed.endswith("Draws nothing.\n")


def differing(one, other):
    """The tables of two cards."""
    return [text[text.index("| asked for") : text.index("## Limits")] for text in (one, other)]


def test_a_calibration_from_before_the_last_training_is_not_exported(tiny_run, here):
    run = shutil.copytree(tiny_run, here / "run")
    (run / "calibration.json").write_text(json.dumps({"old": 1}))
    os.utime(run / "calibration.json", (0, 0))
    assert export.main([str(run), "given"]) == 0
    assert not Path("given/calibration.json").exists()


@pytest.mark.parametrize("name", ["faces-csali", "faces-modulated", "morphomnist-csali"])
def test_models_that_come_with_cfgen_are_calibrated(name, here):
    """Audits start from it, and the card shows it."""
    model = cfgen.load(name)
    found = read_calibration(model)
    assert found is not None
    judged = [strength for strength in found.strengths.values() if strength.judged]
    assert len(judged) > 0.8 * len(found.strengths)
    assert all(strength.low <= strength.value <= strength.high for strength in judged)
    assert not any(math.isnan(share) for share in found.turned.values())
    text = (checkpoints.PACKAGED / name / "calibration.json").read_text()
    assert '"/' not in text
    assert "## How strongly it draws each attribute" in (model.folder / "README.md").read_text().splitlines()
    with torch.no_grad():
        next(model.module.parameters()).mul_(2)
    assert read_calibration(model) is None
