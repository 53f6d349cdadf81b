"""A parser that is given damaged inputs, and how these are made from a right one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml
from hypothesis import strategies as st

from tests.torture.material import Material
from tests.torture.mutations import assignments, damaged, damaged_text, damaged_tree, dumped, words

__all__ = ["Parser", "of_assignments", "of_file", "of_text", "of_tree", "of_words"]


@dataclass(frozen=True)
class Parser:
    """`inputs` are damaged inputs, `take` gives one to the parser, and `right` is one that it has to take."""

    inputs: Callable[[Material], st.SearchStrategy[Any]]
    take: Callable[[Material, Any], object]
    right: Callable[[Material], Any]


def of_assignments(right: str, take: Callable[[Material, Any], object]) -> Parser:
    return Parser(lambda material: assignments("thickness", "label"), take, lambda material: right)


def of_words(right: Any, take: Callable[[Material, Any], object], *known: str) -> Parser:
    return Parser(lambda material: words(*known), take, lambda material: right)


def of_file(content: Callable[[Material], bytes], take: Callable[[Material, Any], object]) -> Parser:
    return Parser(lambda material: damaged(content(material)), take, content)


def of_text(content: Callable[[Material], str], take: Callable[[Material, Any], object]) -> Parser:
    return Parser(lambda material: damaged_text(content(material)), take, lambda material: content(material).encode())


def of_tree(read: Callable[[Material], bytes], take: Callable[[Material, Any], object]) -> Parser:
    """A file in JSON or YAML."""

    def inputs(material: Material) -> st.SearchStrategy[bytes]:
        whole = read(material)
        return st.one_of(damaged_tree(yaml.safe_load(whole)).map(dumped), damaged(whole))

    return Parser(inputs, take, read)
