"""Turns what the argument parser says into one line that names the nearest and the valid choices."""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytorch_lightning as pl

from cfgen.errors import UserError, unknown_name
from cfgen.training.configs import SUFFIXES, packaged_configs
from cfgen.training.options import LINKED, assignments

__all__ = ["explain"]

PACKAGES = ("lightning_modules", "datamodules", "callbacks")


def explain(message: str, words: Sequence[str], top_level: Iterable[str]) -> UserError:
    """A parser's message in one line; `words` are the command's, searched for the classes it meant to configure."""
    if match := re.search(r"Option '([^']+)' is not accepted|unrecognized arguments: (\S+)", message):
        name = (match[1] or match[2]).lstrip("-").split("=")[0]
        return UserError(unknown_option(name, words, top_level), argument=option_named(name, words))
    if match := re.search(r'Parser key "(model|data)":.*?arguments are required: (\w+)', message, re.DOTALL):
        return UserError("expected a value: no config gives one, and it has no default", f"{match[1]}.{match[2]}")
    if match := re.search(r"arguments are required: (.+)", message):
        return UserError(f"no {match[1].replace(', ', ' and no ')} is named: give a config that names one", "config")
    if match := re.search(r"class_path '([^']+)'|Expected a dot import path string: (\S+)", message):
        return UserError(unknown_class(match[1] or match[2], message))
    if match := re.search(r'Parser key "([^"]+)":\s*Expected an? (.+?)\. Got value: (.*)', message):
        kind, option = re.sub(r"<class '([^']+)'>", r"\1", match[2]), option_named(match[1], words)
        where = "" if option else f"{match[1]}: "  # in a config file
        return UserError(f"{where}expected {kind}, not {match[3].strip()!r}", argument=option)
    return UserError(message, argument="config" if "Problems parsing config" in message else None)


def option_named(name: str, words: Sequence[str]) -> str | None:
    """The option of the command that ends in this name, where it is one: it may stand in a config file instead."""
    return next((option for option, _ in assignments(words) if option.split(".")[-1] == name.split(".")[-1]), None)


def unknown_class(path: str, message: str) -> str:
    """The class that does not exist, and those that do in its module (or in the project's packages)."""
    module_name, _, name = path.rpartition(".")
    try:
        module = importlib.import_module(module_name) if module_name else None
    except Exception as error:  # the module may be the user's, and do anything
        if not difflib.get_close_matches(module_name.split(".")[0], PACKAGES):
            return f"cannot import {module_name} for {path} ({type(error).__name__}: {error})"
        module = None
    if module is not None and hasattr(module, name):  # it exists: the parser minds something else about it
        return message
    modules = [module] if module is not None else [importlib.import_module(package) for package in PACKAGES]
    valid = [f"{m.__name__}.{public}" for m in modules for public in getattr(m, "__all__", ())]
    return unknown_name("class", path, valid)


def unknown_option(name: str, words: Sequence[str], top_level: Iterable[str]) -> str:
    """The option that nothing accepts, and what the class it comes nearest to does accept."""
    leaf = name.rsplit(".", 1)[-1]
    groups = {"": sorted(set(top_level)), "Trainer": parameters(pl.Trainer)}
    groups |= {path: parameters(owner) for path, owner in classes_named(words).items()}

    def nearness(group: str) -> float:
        return max((difflib.SequenceMatcher(None, leaf, option).ratio() for option in groups[group]), default=0.0)

    best = "Trainer" if name.startswith("trainer.") else max(groups, key=nearness)
    return unknown_name(f"option of {best}" if best else "option", leaf, groups[best])


def parameters(owner: type) -> list[str]:
    return [name for name in inspect.signature(owner).parameters if name not in LINKED]


def classes_named(words: Sequence[str]) -> dict[str, type]:
    """Every class whose path stands in the words or in a config file they name."""
    texts = list(words)
    for word in words:
        texts += [file.read_text() for file in config_files(Path(word.split("=", 1)[-1]))]
    classes: dict[str, type] = {}
    for path in re.findall(r"\b[\w.]+\.[A-Z]\w*", "\n".join(texts)):
        module_name, _, name = path.rpartition(".")
        try:
            candidate = getattr(importlib.import_module(module_name), name, None)
        except (ImportError, ValueError):
            continue
        if isinstance(candidate, type):
            classes[path] = candidate
    return classes


def config_files(path: Path) -> list[Path]:
    """A config file and those that it includes, packaged or not."""
    path = packaged_configs().get(path.name.removesuffix(".yaml"), path) if not path.is_file() else path
    if not path.is_file() or path.suffix not in (*SUFFIXES, ".json"):
        return []
    included = re.findall(r":\s*([\w./-]+\.yaml)\b", path.read_text())
    return [path, *(path.parent / name for name in included if (path.parent / name).is_file())]
