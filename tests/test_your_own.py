"""docs/your_own.md as a reader follows it: its files are written, its commands given, in its order."""

import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.torch import load_file

from cfgen.__main__ import main as cfgen
from cfgen.scm import AttributeSCM
from datamodules import ImageTable

PAGE = (Path(__file__).parents[1] / "docs" / "your_own.md").read_text()
BLOCKS = re.findall(r"^```(python|yaml|bash)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
FILES = {text.split("\n", 1)[0].removeprefix("# "): text for kind, text in BLOCKS if kind != "bash"}
COMMANDS = [line for kind, text in BLOCKS if kind == "bash" for line in text.splitlines()]

DESCRIPTION = "mugs/attributes.yaml"  # lies in the folder that the first command makes
PICTURES = "240"
TINY = "--trainer.max_epochs 1 --trainer.limit_train_batches 2 --trainer.check_val_every_n_epoch 1"
TINY += " --trainer.enable_progress_bar false --trainer.accelerator cpu --data.batch_size 24"
SMALL = {"my_model": "--model.latent_dim 4", "repair": ""}  # by a word of the command; other models have a width


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the page's files and nothing else."""
    for name, text in FILES.items():
        if Path(name).parent == Path():
            (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    for name in FILES:
        sys.modules.pop(Path(name).stem, None)


def give(command: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Gives a command of the page, with options that make it small."""
    program, *words = shlex.split(command)
    if program == "python":
        monkeypatch.setattr(sys, "argv", [*words, PICTURES])
        runpy.run_path(words[0])
        if words[0] == "make_mugs.py":
            Path(DESCRIPTION).write_text(FILES[DESCRIPTION])
        return 0
    assert program == "cfgen"
    for name in FILES:  # each command is a process of its own, which has imported none of them
        sys.modules.pop(Path(name).stem, None)
    if words[0] == "fit":
        words += TINY.split()
        small = (options for word, options in SMALL.items() if word in command)
        words += next(small, "--model.width 0.05").split()
    if words[0] == "audit":
        words += ["--predictor", "none", "--explain", "none"]
    return cfgen(words)


def test_every_block_is_a_file_or_a_command() -> None:
    assert list(FILES) == [
        "make_mugs.py",
        DESCRIPTION,
        "my_network.py",
        "train_my_network.py",
        "my_mugs.py",
        "my_data.py",
        "shapes.yaml",
        "my_model.py",
    ]
    assert PAGE.count("```") == 2 * len(BLOCKS)
    assert {line.split()[0] for line in COMMANDS} == {"python", "cfgen"}


@pytest.mark.slow
def test_the_page_runs_as_it_is_written(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in COMMANDS:
        assert give(command, monkeypatch) == 0, command

    # what the page says is left
    for run in ("mugs", "mugs_classifier", "mugs_predictor", "mugs_repaired", "mugs_measured", "shapes", "mugs_mine"):
        assert (workplace / "runs" / run / "001" / "best.ckpt").is_file(), run
    assert (workplace / "counterfactuals.png").is_file()
    assert (workplace / "comparisons" / "001").is_dir()
    assert (workplace / "shared_mugs" / "model.safetensors").is_file()
    for number in ("001", "002", "003"):
        report = workplace / "runs" / "mugs" / "001" / "audits" / number / "report.html"
        assert "espresso" in report.read_text()
    scalars = (workplace / "runs" / "mugs_predictor" / "001" / "metrics.csv").read_text()
    assert "val/accuracy/glaze" in scalars
    assert "val/mean_abs_error/height" in scalars
    from my_network import build  # type: ignore[import-not-found]  # written by the fixture

    build().load_state_dict(load_file(workplace / "runs" / "mugs_repaired" / "001" / "repaired.safetensors"))


def test_mugs_are_measured_as_they_were_drawn(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give("python make_mugs.py", monkeypatch)
    from my_mugs import MeasuredMugs  # type: ignore[import-not-found]  # written by the fixture

    data = MeasuredMugs("mugs", batch_size=24)
    data.prepare_data()
    data.setup()
    measured = data.measure(data.images("train") / 255, ["height"])["height"]
    error = (measured - data.columns("train")["height"]).abs()
    assert error.mean() < 2
    assert error.max() < 10


def test_height_follows_the_handle_and_not_the_reverse(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page says of its graph, of the data it draws."""
    give("python make_mugs.py", monkeypatch)
    data = ImageTable("mugs", batch_size=24)
    data.prepare_data()
    data.setup()
    columns = data.columns("train")
    scm = AttributeSCM(**data.scm_spec)
    scm.fit(columns)
    given_one = scm.counterfactual(columns, do={"handle": 1})
    without = columns["handle"] == 0
    assert given_one["height"][without].mean() > columns["height"][without].mean() + 10
    assert scm.counterfactual(columns, do={"height": 100.0})["handle"].equal(columns["handle"])
