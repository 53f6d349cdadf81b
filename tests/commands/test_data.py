"""`python -m cfgen.data`: what it prints and writes."""

from pathlib import Path

import pytest
from PIL import Image

from cfgen.data import main
from tests.refusals import refusal


def test_prepares_and_shows(tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["morpho_mnist", "--cache_dir", "cache", "--limit", "200"]
    assert main(options) == 0
    printed = capsys.readouterr().out
    (cached,) = (tmp_path / "cache").glob("*.npz")
    assert cached.name in printed
    assert "160 train, 20 val, 20 test" in printed
    for name in ("thickness", "intensity", "slant", "label"):
        assert name in printed
    with Image.open(tmp_path / "morpho_mnist-embedded.png") as sheet:
        assert min(sheet.size) > 600
    assert main([*options, "--out", "sheets/digits.png"]) == 0
    assert (tmp_path / "sheets" / "digits.png").exists()
    assert len(list((tmp_path / "cache").glob("*.npz"))) == 1


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        (["--source", "embeded"], None),
        (["--source", "published", "--data_dir", "nowhere"], None),
        (["--limit", "100", "--out", "sheet.docx"], "out"),
        (["--limit", "0"], "limit"),
    ],
)
def test_errors_are_one_line(tmp_path, capsys, monkeypatch, options, argument):
    monkeypatch.chdir(tmp_path)
    refusal(main, ["morpho_mnist", "--cache_dir", "cache", *options], capsys, argument)


def test_a_set_that_is_not_there(capsys):
    refusal(main, ["morpho_mnits"], capsys, "set")


def test_help(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["morpho_mnist", "--help"])
    assert stopped.value.code == 0
    assert "--source" in capsys.readouterr().out
