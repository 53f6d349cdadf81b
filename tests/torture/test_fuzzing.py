"""Damaged inputs for every parser, the same ones every time; and what was found by others, kept."""

import json
import shutil
import zipfile

import pytest
import torch

from cfgen.audit.report._page import scores_of
from cfgen.audit.strength import calibrated_strength
from cfgen.checkpoints import CARD, PACKAGED, load_module
from cfgen.errors import LONGEST, UserError
from cfgen.io.checksums import CHECKSUMS, require_whole_checkpoint
from cfgen.runs.calibration import read_calibration
from cfgen.runs.card import CALIBRATION, require_calibration
from cfgen.runs.model import TrainedModel, load_trained
from lightning_modules import ImageMechanismModule
from tests.torture import fuzzing
from tests.torture.fuzzing import Hang, examine, limited, taken
from tests.torture.material import Material
from tests.torture.parsers import PARSERS

EACH = 12  # inputs of each parser here; `make fuzz` has hundreds


@pytest.fixture(scope="module")
def material(tmp_path_factory) -> Material:
    return Material(tmp_path_factory.mktemp("fuzzing") / "material")


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_answers_or_refuses(name, material, monkeypatch):
    """What is right is taken; what is damaged is taken or refused by a `UserError`, in time and in bounded memory."""
    monkeypatch.chdir(material.scratch)
    assert taken(PARSERS[name].take, material, PARSERS[name].right(material))
    given, _ = examine(name, material, EACH)
    assert given >= EACH


def for_ever() -> None:
    while True:
        pass


def test_the_limits_limit():
    """A harness that cannot fail would find nothing."""
    with pytest.raises(MemoryError), limited():
        bytearray(700_000_000)
    with pytest.raises(MemoryError), limited():
        bytearray(10_000_000_000)
    with pytest.raises(ZeroDivisionError):
        taken(lambda material, value: 1 / value, None, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.torture.fuzzing.MOST_SECONDS", 0.05)
        with pytest.raises(Hang), limited():
            for_ever()


def test_messages_have_an_end():
    error = UserError(f"this line is none: {'x' * 50_000_000} (line 7)")
    assert len(str(error)) <= LONGEST
    assert str(error).startswith("this line is none")
    assert str(error).endswith("(line 7)")


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory) -> TrainedModel:
    """A model whose folder has a calibration of its own, which tests change."""
    folder = tmp_path_factory.mktemp("calibrated") / "model"
    shutil.copytree(PACKAGED / "morphomnist-csali", folder)
    return load_trained(folder)


@pytest.mark.parametrize(
    ("path", "value"),
    [(["turned", "label"], ""), (["accuracy", "slant"], -(10**400)), (["drawn", 0, "strength", "value"], "x"), (["split"], None),
     (["drawn", 0, "gap", "rms"], []), (["drawn", 0, "images"], True), (["keep_residual"], {})],
)  # fmt: skip
def test_a_calibration_that_is_none(calibrated, path, value):
    assert calibrated.folder is not None
    whole = (PACKAGED / "morphomnist-csali" / CALIBRATION).read_text()
    contents = json.loads(whole)
    (calibrated.folder / CALIBRATION).write_text(whole)
    assert read_calibration(calibrated) is not None
    place = contents
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    (calibrated.folder / CALIBRATION).write_text(json.dumps(contents))
    assert read_calibration(calibrated) is None


def test_a_calibration_at_values_that_are_no_numbers(calibrated):
    assert calibrated.folder is not None
    contents = json.loads((PACKAGED / "morphomnist-csali" / CALIBRATION).read_text())
    row = next(row for row in contents["drawn"] if row["do"].startswith("thickness="))
    row["do"] = "thickness=thick"
    (calibrated.folder / CALIBRATION).write_text(json.dumps(contents))
    found = read_calibration(calibrated)
    assert found is not None
    assert calibrated_strength(found, calibrated.schema, {"thickness": torch.tensor(3.0)}) is not None


def test_numbers_that_are_too_large(tmp_path):
    contents = json.loads((PACKAGED / "morphomnist-csali" / CALIBRATION).read_text())
    contents["gap"]["rms"] = 10**400
    with pytest.raises(UserError):
        require_calibration(contents, tmp_path / CALIBRATION)
    assert scores_of({"mse_x": 10**400, "mae_z": 0.5}, set()) == [("mae_z", 0.5)]


def test_a_card_that_asks_for_a_network_of_any_size(tmp_path):
    """The weights say how large it can be: it is refused before memory is spent."""
    folder = tmp_path / "wide"
    shutil.copytree(PACKAGED / "morphomnist-csali", folder)
    (folder / CHECKSUMS).unlink()
    card = json.loads((folder / CARD).read_text())
    card["hyper_parameters"]["mechanism"]["init_args"]["width"] = 60.0
    (folder / CARD).write_text(json.dumps(card))
    with limited(), pytest.raises(UserError, match="weights, and it holds"):
        load_module(folder, ImageMechanismModule)


def test_a_checkpoint_with_a_flipped_bit(material, tmp_path):
    """Torch reads such weights without a word; every bit of them counts here."""
    whole = (material.run / "last.ckpt").read_bytes()
    path = tmp_path / "last.ckpt"
    path.write_bytes(whole)
    state = load_trained(path).module.state_dict()
    tensor = max((value for value in state.values() if value.ndim == 1 and value.unique().numel() > 2), key=len)
    data = bytearray(whole)
    data[whole.index(tensor.numpy().tobytes())] ^= 1
    path.write_bytes(data)
    read = torch.load(path, weights_only=True)["state_dict"]
    assert not all(torch.equal(value, state[name]) for name, value in read.items())
    with pytest.raises(UserError, match="damaged"):
        load_trained(path)


def test_a_checkpoint_that_unpacks_to_anything(tmp_path):
    path = tmp_path / "last.ckpt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data/0", bytes(10_000_000))
    with pytest.raises(UserError, match="compressed"):
        require_whole_checkpoint(path)


def test_the_table_of_many(monkeypatch, tmp_path, capsys):
    """`make fuzz` in small; in this process, which has threads and cannot be forked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fuzzing, "in_child", lambda work: work())
    assert fuzzing.main(["--count", "12", "--only", "index", "idx"]) == 0
    assert "12 inputs, 0 findings" in capsys.readouterr().out
