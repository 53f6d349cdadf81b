"""Strategies of hypothesis that damage what was right: bytes of files, values of trees, words of options.

A damage is a short list of edits, so that hypothesis shrinks what it finds to the one edit that matters.
"""

from __future__ import annotations

import copy
import json
import math
import struct
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

__all__ = ["assignments", "damaged", "damaged_text", "damaged_tree", "dumped", "words"]

NUMBERS = [0, 1, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1]
LONG = "x" * 3_000
TEXTS = [
    "", " ", "\x00", "\n", "nan", "-inf", "1e400", "-1", "²", "٣", "9" * 5000, "0x10", "1_000", "é" * 50, "\u2028", "\udc80", "🙂",
    "../../x", "/etc/passwd", "%s%n", "{}", "$\\frac{$", "[/b]", "<script>", "=", ",", "--", "a=b=c", LONG,
]  # fmt: skip


def deep(depth: int) -> list[Any]:
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    return nested


VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2, 0.5, 1e-320, 1e308, -1e308, math.nan, math.inf, 2**31, 2**63, 2**64, 10**30, -(10**400),
    [], {}, [None], [[1, 2], [3]], {"a": {"b": {}}}, {"class_path": "os.system", "init_args": {"command": "false"}},
    ["a", 1, None, {"b": math.nan}], deep(50), deep(500), [0] * 1000,
]  # fmt: skip


def place(length: int) -> st.SearchStrategy[int]:
    """A position in so many bytes: anywhere, or among the first, where headers are, or the last, where zips are listed."""
    last = max(0, length - 1)
    return st.one_of(
        st.integers(0, last), st.integers(0, min(last, 64)), st.integers(0, min(last, 80)).map(lambda back: last - back)
    )


def edits(length: int) -> st.SearchStrategy[Callable[[bytearray], None]]:
    where = place(length)

    def flip(at: int, bit: int) -> Callable[[bytearray], None]:
        def edit(data: bytearray) -> None:
            if data:
                data[at % len(data)] ^= 1 << bit

        return edit

    def cut(at: int) -> Callable[[bytearray], None]:
        return lambda data: data.__delitem__(slice(at, None))

    def drop(at: int, count: int) -> Callable[[bytearray], None]:
        return lambda data: data.__delitem__(slice(at, at + count))

    def insert(at: int, more: bytes) -> Callable[[bytearray], None]:
        return lambda data: data.__setitem__(slice(at, at), more)

    def overwrite(at: int, more: bytes) -> Callable[[bytearray], None]:
        return lambda data: data.__setitem__(slice(at, at + len(more)), more)

    def repeat(at: int, count: int, times: int) -> Callable[[bytearray], None]:
        return lambda data: data.__setitem__(slice(at, at), bytes(data[at : at + count]) * times)

    kinds = st.sampled_from(["<H", ">H", "<I", ">I", "<Q", ">Q", "B"])
    number = st.builds(
        lambda kind, value: struct.pack(kind, value & (2 ** (8 * struct.calcsize(kind)) - 1)),
        kinds,
        st.sampled_from(NUMBERS),
    )
    return st.one_of(
        st.builds(flip, where, st.integers(0, 7)),
        st.builds(cut, where),
        st.builds(overwrite, where, number),
        st.builds(overwrite, where, st.binary(min_size=1, max_size=8)),
        st.builds(insert, where, st.binary(min_size=1, max_size=16)),
        st.builds(drop, where, st.integers(1, 64)),
        st.builds(repeat, where, st.integers(1, 64), st.integers(1, 50)),
    )


def damaged(whole: bytes) -> st.SearchStrategy[bytes]:
    """The bytes of a file after one to four edits; now and then anything at all."""

    def edited(changes: list[Callable[[bytearray], None]]) -> bytes:
        data = bytearray(whole)
        for change in changes:
            change(data)
        return bytes(data)

    several = st.lists(edits(len(whole)), min_size=1, max_size=4).map(edited)
    return st.one_of(several, several, several, several, st.binary(max_size=200))


def strange() -> st.SearchStrategy[Any]:
    """A value that is probably none of those expected."""
    return st.one_of(
        st.sampled_from(VALUES), st.sampled_from(TEXTS), st.integers(), st.floats(), st.text(max_size=20),
        st.integers(-3, 300), st.lists(st.integers(-3, 9), max_size=4),
    )  # fmt: skip


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in a tree of mappings and lists, the root first."""
    found = [path]
    if isinstance(tree, (dict, list)):
        for key in tree if isinstance(tree, dict) else range(len(tree)):
            found += places(tree[key], (*path, key))
    return found


def damaged_tree(tree: Any) -> st.SearchStrategy[Any]:
    """A tree of plain values in which one to three values are replaced, left out, renamed or exchanged for another's."""
    paths = places(tree)
    # as likely near the root, where a class or a shape is named, as among the many leaves
    depths = sorted({len(path) for path in paths})
    path = st.sampled_from(depths).flatmap(lambda depth: st.sampled_from([one for one in paths if len(one) == depth]))
    edit = st.tuples(path, st.sampled_from(["replace", "replace", "delete", "rename", "exchange"]), strange(), path)

    def edited(changes: list[tuple[tuple[Any, ...], str, Any, tuple[Any, ...]]]) -> Any:
        root = [copy.deepcopy(tree)]
        for at, kind, value, other in changes:
            apply_edit(root, (0, *at), kind, value, (0, *other))
        return root[0] if root else None

    return st.lists(edit, min_size=1, max_size=3).map(edited)


def apply_edit(root: Any, path: tuple[Any, ...], kind: str, value: Any, other: tuple[Any, ...]) -> None:
    """Changes a tree in place; a path that an earlier edit took away is left alone."""
    try:
        holder = at(root, path[:-1])
        holder[path[-1]]
        match kind:
            case "replace":
                holder[path[-1]] = value
            case "delete" if len(path) > 1:
                del holder[path[-1]]
            case "rename" if isinstance(holder, dict):
                holder[str(value)[:50]] = holder.pop(path[-1])
            case "exchange":
                holder[path[-1]] = copy.deepcopy(at(root, other))
    except (KeyError, IndexError, TypeError):
        return


def at(root: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        if not isinstance(root, (dict, list)):  # a tensor takes strange keys too
            raise KeyError(key)
        root = root[key]
    return root


def dumped(tree: Any) -> bytes:
    """As JSON, which YAML is too; NaN and broken characters as Python writes them."""
    return json.dumps(tree).encode("utf-8", "surrogatepass")


def damaged_text(text: str) -> st.SearchStrategy[bytes]:
    """A text after edits of its bytes, or with words exchanged for strange ones."""

    def exchanged(number: int, new: str) -> bytes:
        parts = text.split(" ")
        parts[number % len(parts)] = new
        return " ".join(parts).encode("utf-8", "surrogatepass")

    return st.one_of(damaged(text.encode()), st.builds(exchanged, st.integers(0, 10**6), st.sampled_from(TEXTS)))


def words(*known: str) -> st.SearchStrategy[str]:
    """What somebody may type: known words, strange ones and signs in any order."""
    part = st.one_of(
        st.sampled_from(known), st.sampled_from(TEXTS), st.sampled_from(["=", ",", "-", " ", "."]), st.integers().map(str),
        st.floats().map(str), st.text(max_size=5),
    )  # fmt: skip
    return st.lists(part, min_size=1, max_size=6).map("".join)


def assignments(*names: str) -> st.SearchStrategy[str]:
    """`NAME=VALUE,...` with values of all kinds, often all names with fitting ones; or anything."""
    value = st.one_of(
        st.sampled_from(["0", "1", "2", "3", "0.5"]),
        st.integers().map(str),
        st.floats().map(str),
        st.sampled_from(TEXTS),
    )
    pair = st.builds("{}={}".format, st.sampled_from(names), value)
    fitting = st.tuples(*(st.builds("{}={}".format, st.just(name), value) for name in names)).map(",".join)
    return st.one_of(fitting, st.lists(pair, min_size=1, max_size=3).map(",".join), words(*names, "=", ",", "1"))
