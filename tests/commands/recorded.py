"""Commands with everything heavy behind them replaced: what a command passes on is written down, and nothing is computed."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cfgen.__main__ import COMMANDS

__all__ = ["PARSED", "Recorder", "parser_of"]

# fit and quickstart have LightningCLI's parser, study one for each of its parts; app only passes on to a server
PARSED = [name for name in COMMANDS if name not in ("fit", "quickstart", "app", "study")]


def module_of(command: str) -> Any:
    """The module that has a command's parser."""
    module = importlib.import_module(f"cfgen.{command}")
    return module if hasattr(module, "parser") else importlib.import_module(f"cfgen.{command}.command")


def parser_of(command: str) -> Any:
    return module_of(command).parser()


@dataclass
class Result:
    """What every replaced function returns: whatever is asked of it is there, and saving it is written down."""

    calls: dict[str, Any]
    command: str = ""
    description: str = ""
    trusted: bool = False
    has_scores: bool = True
    size: int = 0
    examples: int = 0
    frames: int = 0
    name: str = "made"
    folder: Path = Path()
    checks: list[Any] = field(default_factory=list)
    path: Path = Path()

    def save(self, folder: Any = None) -> Any:
        self.calls["save"] = folder
        return Saved([Path("made")])

    def save_sheet(self, path: Any) -> Any:
        self.calls["save_sheet"] = path
        return path

    def grid(self) -> bytes:
        return b""

    def files(self) -> dict[str, str]:
        return {}

    def write(self, files: Any) -> None:
        pass

    def __enter__(self) -> Result:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class Saved(list[Path]):
    """Paths that were written, and the folder they are in."""

    def __truediv__(self, name: str) -> Path:
        return self[0] / name


class Recorder:
    """Runs commands and says what each passed on, by function and argument: {"audit.count": 7, ...}."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.patch = monkeypatch
        self.calls: dict[str, Any] = {}
        for place in (
            "cfgen.audit.calibration.calibrate", "cfgen.audit.library.audit", "cfgen.audit.report.console.show",
            "cfgen.data.command.built_data", "cfgen.data.console.show", "cfgen.evaluation.compare", "cfgen.evaluation.evaluate",
            "cfgen.evaluation.terminal.show", "cfgen.app.static_page.write_page",
            "cfgen.reporting.dataset.look", "cfgen.reporting.files.new_results", "cfgen.runs.data.require_finished", "cfgen.runs.data.results_folder",
            "cfgen.runs.export.export", "cfgen.runs.generation.generate", "cfgen.runs.model.load_trained",
            "cfgen.runs.verification.verify", "cfgen.training.recipe.recipe_for", "cfgen.calibrate.command.show",
        ):  # fmt: skip
            self.replace(place)
        self.replace("cfgen.processes.Processes", SimpleNamespace(first=True))
        folders = SimpleNamespace(write_image_folder=lambda data, folder: self.calls.update({"export": folder}))
        monkeypatch.setitem(sys.modules, "datamodules.image_table", folders)

    def replace(self, place: str, returns: Any = None) -> None:
        module_name, _, name = place.rpartition(".")
        module = importlib.import_module(module_name)
        signature = inspect.signature(getattr(module, name))

        def recorded(*arguments: Any, **options: Any) -> Any:
            given = signature.bind(*arguments, **options).arguments
            given |= given.pop("options", {}) if name == "compare" else {}  # those of `evaluate`, passed on
            self.calls |= {f"{name}.{argument}": value for argument, value in given.items()}
            return Result(self.calls) if returns is None else returns

        self.patch.setattr(module, name, recorded)

    def passed_on(self, command: str, words: Sequence[str]) -> dict[str, Any]:
        """What a command with these words passed on, and the code that it returned."""
        self.calls.clear()
        code = module_of(command).command(list(words))
        kept = {key: value for key, value in self.calls.items() if not is_made(value)}
        return kept | ({"exit code": code} if code else {})


def is_made(value: Any) -> bool:
    """Whether a value is of this module's making, or a function: they differ from call to call, and say nothing."""
    return isinstance(value, Result | SimpleNamespace) or callable(value)
