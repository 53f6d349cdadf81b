"""Options checked against source files: a wrong name or number is refused before torch and Lightning are imported.

What cannot be seen at a glance, such as the options of a class of the user's own, is left to the parser, which knows all of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from cfgen.errors import UserError, unknown_name
from cfgen.training.configs import SUFFIXES, find_config, packaged_configs, packaged_data

__all__ = ["LINKED", "check_options", "constructor_options", "with_run_config"]

TOP_LEVEL = (
    "check_memory", "ckpt_path", "config", "data", "help", "model", "name", "print_config", "runs_dir", "seed_everything",
    "timeout_minutes", "trainer",
)  # fmt: skip
PACKAGES = ("lightning_modules", "datamodules")
LINKED = {"scm", "image_shape"}  # come from the data, not from the user
NUMBERS = {"int": "a whole number", "float": "a number"}
OF_A_CLASS = {"class_path", "init_args", "dict_kwargs", "help"}  # what the parser takes beside a constructor's own


def check_options(words: Sequence[str]) -> None:
    """Refuses a command's words where a config or an option does not exist; `words` are as `cfgen fit` takes them."""
    if not words:
        raise UserError(
            f"no config is named; give a file, or one that comes with cfgen: {', '.join(packaged_configs())}", "config"
        )
    words = with_run_config(words)
    if not words[0].startswith("-"):
        raise UserError(f"{words[0]!r} belongs to no option; a config is named by the option `config`", "config")
    given = list(assignments(words))
    _check_given_once(words, given)
    for option, value in given:
        section = option.partition(".")[0]
        if section not in TOP_LEVEL:
            raise UserError(unknown_name("option", option, TOP_LEVEL), argument=option)
        if option == "config" and value is not None:
            _check_sections(find_config(value))
    classes = class_paths(given)
    for option, value in given:
        section, _, key = option.partition(".")
        if key and section in classes:
            _check_value(option, key, value, classes[section])


def with_run_config(words: Sequence[str]) -> list[str]:
    """A command's words, where `--ckpt_path` is the folder of a run with that run's config first.

    What the run is comes from there; a value beside it is a change.
    """
    given = dict(assignments(words))
    folder = Path(given.get("ckpt_path") or "nothing")
    if not folder.is_dir():
        return list(words)
    for option in ("config", "name", "runs_dir"):
        if option in given:
            raise UserError(
                f"a run that goes on has its own: leave it out, {folder} says it; single values can be set, such as "
                "--trainer.max_epochs 20",
                argument=option,
            )
    if not (folder / "config.yaml").is_file():
        runs = sorted(str(path.parent) for path in folder.glob("*/config.yaml"))
        told = f"; give one of {', '.join(runs)}" if runs else ": give the folder of a run, such as runs/quickstart/001"
        raise UserError(f"{folder} holds no config.yaml{told}", argument="ckpt_path")
    return ["--config", str(folder / "config.yaml"), *words]


def _check_given_once(words: Sequence[str], given: Sequence[tuple[str, str | None]]) -> None:
    """Refuses an option without a value, and one that is given again, of which the parser would use the last."""
    appended = {word.split("=")[0].strip("-+") for word in words if word.startswith("--") and "+" in word.split("=")[0]}
    seen: set[str] = set()
    for option, value in given:
        if value is not None and not value.strip():
            raise UserError("expected a value, and nothing is given; null stands for none", argument=option)
        name = option.replace(".init_args", "").removesuffix(".class_path")  # which can be left out
        listed = name == "config" or any(name == one or name.startswith(f"{one}.") for one in appended)
        if name in seen and not listed:
            raise UserError("it is given twice, and only one can be used; give it once", argument=option)
        seen.add(name)


def _check_sections(path: Path) -> None:
    content = _loaded(path)
    for key in content if isinstance(content, dict) else ():
        if str(key).removesuffix("+").partition(".")[0] not in TOP_LEVEL:
            raise UserError(f"{path}: {unknown_name('key', str(key), TOP_LEVEL)}", argument="config")


def assignments(words: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """The options of a command without their dashes, each with its value where it has one.

    >>> list(assignments(["-c", "quickstart", "--trainer.max_epochs=2", "--print_config"]))
    [('config', 'quickstart'), ('trainer.max_epochs', '2'), ('print_config', None)]
    """
    for word, following in zip(words, [*words[1:], None], strict=True):
        if word == "-c" or word.startswith("--"):
            option, equals, value = word.removeprefix("--").partition("=")
            option = "config" if word == "-c" else option.removesuffix("+")
            if equals:
                yield option, value
            else:
                yield option, None if following is None or following.startswith("--") else following


def class_paths(given: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    """The classes whose options a command can set, by section: the Trainer's, and the model's and the data's as named last."""
    named = {"trainer": "pytorch_lightning.Trainer"}
    for option, value in given:
        if value is None:
            continue
        if option == "config":
            content = _loaded(find_config(value))
            sections = {name: content.get(name) for name in ("model", "data")} if isinstance(content, dict) else {}
            folder = find_config(value).parent
        elif option in ("model", "data", "model.class_path", "data.class_path"):
            section, folder = option.partition(".")[0], Path()
            part = packaged_data().get(value.removesuffix(".yaml")) if section == "data" else None
            sections = {section: str(part.resolve()) if part else _plain(value)}
        else:
            continue
        for section, what in sections.items():
            if class_path := _class_path(what, folder):
                named[section] = class_path
    return named


def _class_path(section: Any, folder: Path) -> str | None:
    """The class that a section of a config names: itself, in a file beside the config, or as `class_path`."""
    if isinstance(section, str) and section.endswith(SUFFIXES):
        section = _loaded(folder / section)
    if isinstance(section, dict):
        section = section.get("class_path")
    return section if isinstance(section, str) else None


def _loaded(path: Path) -> Any:
    try:
        return _plain(path.read_text())
    except (OSError, UnicodeDecodeError):
        return None


def _plain(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:  # the parser says what is wrong with it
        return None


def _check_value(option: str, key: str, value: str | None, class_path: str) -> None:
    """Refuses an option that the class does not have, and what is not a number where one is expected, where that can be told."""
    parts = key.split(".")
    name = parts[1] if parts[0] == "init_args" and len(parts) > 1 else parts[0]
    options = constructor_options(class_path)
    if options is None or name in OF_A_CLASS:
        return
    if name not in options:
        raise UserError(unknown_name(f"option of {class_path.rpartition('.')[2]}", name, options), argument=option)
    kind = options[name].removeprefix("Optional[").removesuffix("]").removesuffix(" | None")
    if kind in NUMBERS and value and value not in ("null", "true", "false") and not _is_number(value):
        raise UserError(f"expected {NUMBERS[kind]}, not {value!r}", argument=option)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@cache
def constructor_options(class_path: str) -> dict[str, str] | None:
    """What the constructor of a class takes, each with its type, read from the source; None where that does not say it simply.

    >>> "width" in constructor_options("lightning_modules.StyleALI")  # by way of **options, which go to CondALI
    True
    """
    package, name = class_path.partition(".")[0], class_path.rpartition(".")[2]
    if package == "pytorch_lightning":
        files = [path / "trainer" / "trainer.py" for path in _locations(package)]
    elif package in PACKAGES:
        files = [file for path in _locations(package) for file in sorted(path.rglob("*.py"))]
    else:
        return None
    names = _parameters(name, files)
    return None if names is None else {name: kind for name, kind in names.items() if name not in LINKED}


def _locations(package: str) -> list[Path]:
    spec = find_spec(package)  # of a package at the top: found without being imported
    return [Path(location) for location in spec.submodule_search_locations or ()] if spec is not None else []


def _parameters(name: str, files: Sequence[Path]) -> dict[str, str] | None:
    """The parameters of a class's constructor and their types; where it passes others on, also those of its base."""
    definition = _class_definition(name, files)
    if definition is None:
        return None
    own: dict[str, str] = {}
    for statement in definition.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            arguments = statement.args
            listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs][1:]
            own = {one.arg: ast.unparse(one.annotation) if one.annotation else "" for one in listed}
            if arguments.kwarg is None:
                return own
    base = next((base.id for base in definition.bases if isinstance(base, ast.Name)), None)
    inherited = None if base is None else _parameters(base, files)
    return None if inherited is None else inherited | own


def _class_definition(name: str, files: Sequence[Path]) -> ast.ClassDef | None:
    for file in files:
        try:
            text = file.read_text()
        except OSError:
            continue
        if f"class {name}" in text:  # most files need not be parsed
            for node in ast.parse(text).body:
                if isinstance(node, ast.ClassDef) and node.name == name:
                    return node
    return None
