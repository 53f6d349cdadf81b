"""What the command line understands: packaged configs by name, help with examples, errors in one line."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NoReturn

from jsonargparse import ActionConfigFile, DefaultHelpFormatter, Namespace
from pytorch_lightning.cli import LightningArgumentParser

from cfgen.attributes import unknown_name
from cfgen.errors import UserError
from cfgen.training.errors import explain

__all__ = [
    "HelpWithExamples",
    "OneLineParser",
    "PackagedConfigFile",
    "find_config",
    "packaged_configs",
    "packaged_data",
]


def packaged_configs() -> dict[str, Path]:
    """The configs that come with the package, by name."""
    folder = Path(str(resources.files("configs")))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def packaged_data(words: Sequence[str]) -> list[str]:
    """A command's words, where `--data NAME` names a part in configs/data with the path of that part in its place."""
    parts = {path.stem: str(path) for path in Path(str(resources.files("configs.data"))).glob("*.yaml")}
    found = []
    for before, word in zip(["", *words], words, strict=False):
        option, _, value = word.rpartition("=") if word.startswith("--data=") else ("", "", word)
        if (option == "--data" or before == "--data") and not Path(value).is_file():
            value = parts.get(value.removesuffix(".yaml"), value)
        found.append(f"{option}={value}" if option else value)
    return found


def find_config(name: str) -> Path:
    """The path as given, else the packaged config of that name, with or without `.yaml`."""
    given = Path(name)
    if given.is_file():
        return given
    packaged = packaged_configs()
    stem = name.removesuffix(".yaml")
    if stem in packaged:
        return packaged[stem]
    raise UserError(f"no file {name}, and {unknown_name('config', stem, packaged)}")


class PackagedConfigFile(ActionConfigFile):
    """`--config NAME`: a path or the name of a packaged config."""

    @staticmethod
    def apply_config(parser: Any, cfg: Namespace, dest: str, value: str) -> None:
        ActionConfigFile.apply_config(parser, cfg, dest, str(find_config(value)))


class HelpWithExamples(DefaultHelpFormatter):
    """Help that keeps the line breaks of its examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "".join(indent + line for line in text.splitlines(keepends=True))


class OneLineParser(LightningArgumentParser):
    """A parser whose errors are one line with the valid choices."""

    given: Sequence[str] = ()

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        if not self.given:  # a parser inside the parser: the outer one hears what it says and knows the command
            raise UserError(message)
        # nested keys, like trainer.max_epochs, belong to their classes
        options = {action.dest for action in self._actions if "." not in action.dest} - {"==SUPPRESS=="}
        raise UserError(explain(message, self.given, options))
