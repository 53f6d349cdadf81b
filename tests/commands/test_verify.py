"""`cfgen verify` as a user types it, and the checksums that exports carry."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

import cfgen
from cfgen import checkpoints
from cfgen.checkpoints import CARD, CONFIG, EXAMPLES, WEIGHTS
from cfgen.commands import evaluate, export, generate
from cfgen.commands.verify import main
from cfgen.errors import UserError
from cfgen.evaluation.packaged import packaged_judges
from cfgen.io.checksums import CHECKSUMS, listed_checksums
from cfgen.runs.checksums import renewed_checksums
from cfgen.runs.verification import verify
from tests.fakes import FACES, Painted, Painter, fitted, saved
from tests.refusals import refusal

FOLDERS = [
    *(checkpoints.PACKAGED / name for name in checkpoints.packaged_models()),
    *(checkpoints.PACKAGED / "judges" / name for name in packaged_judges()),
]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(checkpoints.PACKAGED / "morphomnist-csali", tmp_path / "m")


@pytest.mark.parametrize("packaged", FOLDERS, ids=lambda folder: folder.name)
def test_all_that_comes_with_cfgen_is_as_it_was_written(packaged):
    found = verify(packaged)
    assert found.passed, found.to_dict()
    files = {path.name for path in packaged.iterdir()} - {CHECKSUMS}
    assert listed_checksums(packaged).keys() == files


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-40] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("name", [WEIGHTS, CARD, CONFIG, EXAMPLES])
@pytest.mark.parametrize("damage", [flip_a_bit, Path.unlink])
def test_a_model_that_is_not_as_it_was_exported_is_not_loaded(folder, capsys, name, damage):
    """One flipped bit in the weights cannot be seen in any image."""
    damage(folder / name)
    refusal(generate.main, ["m", "--do", "thickness=3"], capsys)
    refusal(main, ["m"], capsys, "model")


@pytest.mark.parametrize("name", ["README.md", "metrics.json", "calibration.json"])
def test_what_is_about_a_model_is_verified_and_does_not_keep_it_from_loading(folder, capsys, name):
    flip_a_bit(folder / name)
    cfgen.load(folder)
    refusal(main, ["m"], capsys, "model")


def test_an_export_of_an_earlier_version_loads(folder):
    (folder / CHECKSUMS).unlink()
    cfgen.load(folder)
    assert main(["m"]) == 0


def test_what_is_found_is_printed_and_saved(folder, tmp_path, capsys):
    assert main(["m"]) == 0
    out = capsys.readouterr().out
    for name in (*listed_checksums(folder), "class and weights", "data"):
        assert name in out
    assert "WRONG" not in out
    (folder / "notes.txt").write_text("mine")
    found = verify(folder)
    assert found.passed
    assert "notes.txt" in found.checks[0].found
    flip_a_bit(folder / WEIGHTS)
    assert main(["m"]) == 2
    assert "WRONG" in capsys.readouterr().out
    found = verify(folder)
    frame = found.to_frame()
    assert not frame.loc[WEIGHTS, "passed"]
    assert frame.loc[CARD, "passed"]
    assert json.loads(found.save(tmp_path).read_text())["passed"] is False


def test_runs_and_checkpoints(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    painter = fitted(Painter, Painted(FACES))
    saved(painter, tmp_path / "last.ckpt")
    assert main(["."]) == 0
    assert main(["last.ckpt"]) == 0
    (tmp_path / "last.ckpt").write_bytes(b"nothing")
    refusal(main, ["last.ckpt"], capsys, "model")
    refusal(main, ["nowhere"], capsys, "model")
    refusal(main, [""], capsys, "model")


def test_what_cfgen_writes_into_an_export_later_is_listed(folder):
    (folder / "metrics.json").write_text("{}")
    assert not verify(folder).passed
    with renewed_checksums(folder, ["metrics.json"]):
        assert verify(folder).passed  # killed here, the folder is as good as before
    assert verify(folder).passed
    (folder / "metrics.json").write_text("{ }")
    assert not verify(folder).passed  # it was listed again
    (folder / CHECKSUMS).unlink()
    with renewed_checksums(folder, ["metrics.json"]):
        pass
    assert not (folder / CHECKSUMS).exists()


def test_an_export_has_checksums_and_an_evaluation_of_it_keeps_them_right(
    tiny_run, tmp_path, monkeypatch, digits_cache
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(digits_cache))
    assert export.main([str(tiny_run), "given"]) == 0
    given = tmp_path / "given"
    listed = listed_checksums(given)
    assert listed.keys() == {path.name for path in given.iterdir()} - {CHECKSUMS}
    assert all(hashlib.sha256((given / name).read_bytes()).hexdigest() == digest for name, digest in listed.items())
    assert evaluate.main(["given", "--count", "4", "--metrics", "cycles"]) == 0
    assert verify("given").passed
    assert "metrics.json" in listed_checksums(given)


def test_a_list_that_is_damaged_is_refused(folder):
    flip_a_bit(folder / CHECKSUMS)
    with pytest.raises(UserError):
        cfgen.load(folder)
