"""Commands with everything heavy behind them replaced: what a command passes on is written down, and nothing is computed."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cfgen.__main__ import COMMANDS
from cfgen.classifiers import ExternalClassifier

__all__ = ["PARSED", "Recorder", "parser_of"]

# these have LightningCLI's parser, which tests/training/test_every_setting.py walks over
FITTING = ("fit", "quickstart")


def module_of(command: str) -> Any:
    return importlib.import_module(f"cfgen.commands.{command}")


def tasks_of(command: str) -> list[str]:
    """A command as it is typed, once for each of its tasks: `study new`."""
    return [f"{command} {task}" for task in getattr(module_of(command), "TASKS", ())] or [command]


PARSED = [name for command in COMMANDS if command not in FITTING for name in tasks_of(command)]


def parser_of(name: str) -> Any:
    command, _, task = name.partition(" ")
    return getattr(module_of(command), f"{task}_parser" if task else "parser")()


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

    study: Any = None
    provenance: dict[str, Any] = field(default_factory=dict)

    def save(self, folder: Any = None, **options: Any) -> Any:
        self.calls |= {"save": folder} | {f"save.{name}": value for name, value in options.items()}
        return Saved([Path("made")])

    def load(self, what: Any) -> None:
        self.calls["load"] = what

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
            "cfgen.audit.strength.calibrate", "cfgen.audit.audit", "cfgen.audit.write_report", "cfgen.audit.report.show",
            "cfgen.commands.data.built_data", "cfgen.data.console.show", "cfgen.evaluation.compare", "cfgen.evaluation.evaluate",
            "cfgen.evaluation.terminal.show", "cfgen.app.static_page.write_page",
            "cfgen.reporting.dataset.look", "cfgen.reporting.files.new_results", "cfgen.runs.data.require_finished", "cfgen.runs.data.results_folder",
            "cfgen.runs.export.export", "cfgen.runs.generation.generate", "cfgen.runs.model.load_trained",
            "cfgen.runs.verification.verify", "cfgen.training.recipe.recipe_for", "cfgen.commands.calibrate.show",
            "cfgen.app.catalogue.Catalogue", "cfgen.app.server.create_app", "cfgen.app.serving.open_browser", "cfgen.app.studio.Studio",
            "cfgen.classifiers.load_network", "cfgen.study.analysis.analyse", "cfgen.commands.study.show",
            "cfgen.commands.study.told", "cfgen.study.making.new_study",
        ):  # fmt: skip
            self.replace(place)
        self.replace("cfgen.app.serving.bound", SimpleNamespace(getsockname=lambda: ("", 8642)))
        monkeypatch.setattr("cfgen.app.serving.serve", lambda app, listening, started: started())
        self.replace("cfgen.processes.Processes", SimpleNamespace(first=True))
        monkeypatch.setattr(
            "datamodules.image_table.write_image_folder", lambda data, folder: self.calls.update({"export": folder})
        )

    def replace(self, place: str, returns: Any = None) -> None:
        module_name, _, name = place.rpartition(".")
        module = importlib.import_module(module_name)
        signature = inspect.signature(getattr(module, name))
        keywords = next((one.name for one in signature.parameters.values() if one.kind is one.VAR_KEYWORD), "")

        def recorded(*arguments: Any, **options: Any) -> Any:
            given = signature.bind(*arguments, **options).arguments
            given |= given.pop(keywords, {})
            for argument, value in given.items():
                self.calls |= described(f"{name}.{argument}", value)
            return Result(self.calls) if returns is None else returns

        self.patch.setattr(module, name, recorded)

    def passed_on(self, name: str, words: Sequence[str]) -> dict[str, Any]:
        """What a command with these words passed on, and the code that it returned."""
        self.calls.clear()
        command, _, task = name.partition(" ")
        code = getattr(module_of(command), task or "command")(list(words))
        kept = {key: value for key, value in self.calls.items() if not is_made(value)}
        return kept | ({"exit code": code} if code else {})


def described(place: str, value: Any) -> dict[str, Any]:
    """An argument by its place; of classifiers, what they are, and the settings, which are those of all of them."""
    if not (isinstance(value, list) and any(isinstance(one, ExternalClassifier) for one in value)):
        return {place: value}
    settings = [one.settings for one in value]
    assert settings == settings[:1] * len(settings)
    return {place: [one.network for one in value]} | {f"ExternalClassifier.{k}": v for k, v in settings[0].items()}


def is_made(value: Any) -> bool:
    """Whether a value is of this module's making, or a function: they differ from call to call, and say nothing."""
    return isinstance(value, Result | SimpleNamespace) or callable(value)
