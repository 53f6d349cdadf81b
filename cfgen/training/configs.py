"""Configs by name: those that come with the package, and the parts of them that say what the data is.

Light to import: a wrong name is refused before torch is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from cfgen.errors import UserError, unknown_name

__all__ = ["config_title", "find_config", "packaged_configs", "packaged_data", "with_packaged_data"]

SUFFIXES = (".yaml", ".yml")


def packaged_configs() -> dict[str, Path]:
    """The configs that come with the package, by name.

    >>> "quickstart" in packaged_configs()
    True
    """
    folder = Path(str(resources.files("configs")))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def packaged_data() -> dict[str, Path]:
    """The parts of configs that say what the data is, by name."""
    folder = Path(str(resources.files("configs"))) / "data"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def config_title(path: Path) -> str:
    """What a config is for: the first line of its comment."""
    with path.open() as file:
        first = file.readline()
    return first.lstrip("# ").strip() if first.startswith("#") else ""


def find_config(name: str | Path) -> Path:
    """The path as given, else the packaged config of that name, with or without `.yaml`.

    >>> find_config("quickstart").name
    'quickstart.yaml'
    """
    given = Path(name)
    if given.is_file():
        return given
    packaged = packaged_configs()
    stem = str(name).removesuffix(".yaml")
    if stem in packaged:
        return packaged[stem]
    raise UserError(f"there is no file {name}, and {unknown_name('config', stem, packaged)}", argument="config")


def with_packaged_data(words: Sequence[str]) -> list[str]:
    """A command's words, where `--data NAME` names a packaged part with the path of that part in its place."""
    parts = packaged_data()
    replaced = []
    for before, word in zip(["", *words], words, strict=False):
        option, _, value = word.rpartition("=") if word.startswith("--data=") else ("", "", word)
        if (option == "--data" or before == "--data") and not Path(value).is_file():
            value = str(parts.get(value.removesuffix(".yaml"), value))
        replaced.append(f"{option}={value}" if option else value)
    return replaced
