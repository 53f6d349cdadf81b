"""docs/your_own.md as a reader follows it: its files are written, its commands given, in its order."""

import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cfgen.__main__ import main as cfgen

PAGE = (Path(__file__).parents[1] / "docs" / "your_own.md").read_text()
BLOCKS = re.findall(r"^```(python|yaml|bash)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
FILES = {text.split("\n", 1)[0].removeprefix("# "): text for kind, text in BLOCKS if kind != "bash"}
COMMANDS = [line for kind, text in BLOCKS if kind == "bash" for line in text.splitlines()]

PICTURES = "120"
TINY = "--trainer.max_epochs 1 --trainer.enable_progress_bar false --trainer.accelerator cpu --data.batch_size 24"


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the page's files and nothing else."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "disabled")
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
        return 0
    assert program == "cfgen"
    for name in FILES:  # each command is a process of its own, which has imported none of them
        sys.modules.pop(Path(name).stem, None)
    if words[0] == "fit":
        words += TINY.split()
        words += ["--model.latent_dim", "4"] if "my_model" in command else ["--model.width", "0.05"]
    return cfgen(words)


def test_every_block_is_a_file_or_a_command() -> None:
    assert list(FILES) == [
        "make_shapes.py",
        "my_data.py",
        "shapes.yaml",
        "graph.yaml",
        "my_model.py",
        "my_classifier.py",
    ]
    assert PAGE.count("```") == 2 * len(BLOCKS)
    assert {line.split()[0] for line in COMMANDS} == {"python", "cfgen"}


@pytest.mark.slow
def test_the_page_runs_as_it_is_written(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in COMMANDS:
        assert give(command, monkeypatch) == 0, command

    # what the page says is left
    for run in ("shapes", "shapes_spline", "shapes_no_edges", "shapes_predictor", "shapes_mine"):
        assert (workplace / "runs" / run / "001" / "best.ckpt").is_file(), run
    assert list((workplace / "runs" / "shapes" / "001" / "images").glob("*-counterfactuals.png"))
    assert (workplace / "counterfactuals.png").is_file()
    assert (workplace / "comparisons" / "001").is_dir()
    report = workplace / "runs" / "shapes" / "001" / "audits" / "001" / "report.html"
    assert "large" in report.read_text()
    scalars = (workplace / "runs" / "shapes_predictor" / "001" / "metrics.csv").read_text()
    assert "val/accuracy/round" in scalars
    assert "val/mean_abs_error/size" in scalars


def test_size_follows_round_and_not_the_reverse(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page says of its graph, of the data it draws."""
    give("python make_shapes.py", monkeypatch)
    from my_data import Shapes  # type: ignore[import-not-found]  # written by the fixture

    from cfgen.scm import AttributeSCM

    data = Shapes(batch_size=24)
    data.setup()
    assert {name: len(data.images(name)) for name in ("train", "val", "test")} == {"train": 96, "val": 12, "test": 12}
    columns = data.columns("train")
    scm = AttributeSCM(**data.scm_spec)
    scm.fit(columns)
    made_round = scm.counterfactual(columns, do={"round": 1})
    square = columns["round"] == 0
    assert made_round["size"][square].mean() > columns["size"][square].mean() + 1
    assert scm.counterfactual(columns, do={"size": 8.0})["round"].equal(columns["round"])
