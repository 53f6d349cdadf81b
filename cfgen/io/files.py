"""Text, JSON, YAML and tables from files that somebody else may have written: of limited size, and of the expected kind."""

from __future__ import annotations

import csv
import json
import os
import stat
from pathlib import Path
from typing import Any

import yaml

from cfgen.errors import UserError

__all__ = [
    "MOST_BYTES",
    "MOST_OF_YAML",
    "exists",
    "parsed_yaml",
    "read_bytes",
    "read_csv",
    "read_json",
    "read_text",
    "read_yaml",
]

MOST_BYTES = 50_000_000  # of a text file; what cfgen writes has less than one million
MOST_OF_YAML = 2_000_000  # its parser takes seconds for a megabyte
MOST_VALUES = 200_000  # in a YAML file, each counted wherever an alias puts it


def exists(path: str | Path) -> bool:
    """Whether something is there that can be looked at; a name that is too long, or a folder that is closed to us, has nothing.

    >>> exists("x" * 5000), exists("a\\0b"), exists(".")
    (False, False, True)
    """
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """What a file holds, if it is a file and has no more than so many bytes."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UserError(f"cannot read {path}: it is not a file")
            data = file.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > most:
        raise UserError(f"{path} has more than {most:,} bytes: it is not what is expected here")
    return data


def _without_waiting(path: str, flags: int) -> int:
    """Opens a path; a pipe that nobody writes to would keep us waiting for ever."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """A text in UTF-8; the mark that spreadsheets put first is no part of it."""
    return _decoded(read_bytes(path, most), path)


def _decoded(data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not a text in UTF-8 (at byte {error.start:,})") from error


def read_json(path: Path) -> dict[str, Any]:
    """The object of a JSON file."""
    text = read_text(path)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read as JSON ({_reason(error)})") from error
    if not isinstance(found, dict):
        raise UserError(f"{path} holds a {type(found).__name__} where names with values are expected")
    return found


def read_yaml(path: Path) -> dict[str, Any]:
    """The names and values of a YAML file; plain values alone, whatever its tags say."""
    return parsed_yaml(read_bytes(path, MOST_OF_YAML), path)


def parsed_yaml(data: bytes, path: Path) -> dict[str, Any]:
    """`read_yaml` of what a file holds, such as one in a zip."""
    text = _decoded(data, path)
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:  # ValueError: a date that is none
        raise UserError(f"{path} cannot be read as YAML ({_reason(error)})") from error
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise UserError(f"{path} holds a {type(found).__name__} where names with values are expected")
    waiting, seen = [found], 0
    while waiting:  # aliases of aliases: a few lines that stand for more values than memory holds
        one: Any = waiting.pop()
        seen += 1
        if seen > MOST_VALUES:
            raise UserError(f"{path} stands for more than {MOST_VALUES:,} values: it is not what is expected here")
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
    return found


def read_csv(path: Path) -> list[list[str]]:
    """The lines of a table, each as its cells."""
    text = read_text(path)
    try:
        return list(csv.reader(text.splitlines(keepends=True)))
    except csv.Error as error:
        raise UserError(f"{path} cannot be read as a table ({error})") from error


def _reason(error: BaseException) -> str:
    return "too deep" if isinstance(error, RecursionError) else " ".join(str(error).split())
