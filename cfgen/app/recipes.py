"""The Python and the shell command that draw the very picture that a page shows."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cfgen.runs.generation import name_of

__all__ = ["Recipe"]

FOLDER = "counterfactual"


@dataclass(frozen=True)
class Recipe:
    """A counterfactual of one image: an example by its number, or a picture file by its name with what is true of it.

    >>> recipe = Recipe("morphomnist-hvae", {"thickness": 5.5, "label": 7}, ["intensity"], {}, 3, False)
    >>> print(recipe.shell())
    cfgen generate morphomnist-hvae --do thickness=5.5,label=7 --index 3 --hold intensity --out counterfactual
    >>> print(recipe.python())
    import cfgen
    <BLANKLINE>
    model = cfgen.load('morphomnist-hvae')
    made = model.generate([{'thickness': 5.5, 'label': 7}], index=[3], hold=['intensity'])
    made.save('counterfactual')
    """

    model: str
    do: Mapping[str, Any]
    hold: Sequence[str]
    given: Mapping[str, Any]
    image: str | int
    trusted: bool

    def shell(self) -> str:
        words = ["cfgen", "generate", self.model, "--do", name_of(self.do)]
        if isinstance(self.image, str):
            words += ["--images", _as_path(self.image)]
            words += ["--given", name_of(self.given)] if self.given else []
        else:
            words += ["--index", str(self.image)]
        for name in self.hold:
            words += ["--hold", name]
        words += ["--trusted"] if self.trusted else []
        return shlex.join([*words, "--out", FOLDER])

    def python(self) -> str:
        arguments = [repr([dict(self.do)])]
        if isinstance(self.image, str):
            arguments.append(f"images={[_as_path(self.image)]!r}")
            arguments += [f"given={dict(self.given)!r}"] if self.given else []
        else:
            arguments.append(f"index={[self.image]!r}")
        arguments += [f"hold={list(self.hold)!r}"] if self.hold else []
        load = f"cfgen.load({self.model!r}{', trusted=True' if self.trusted else ''})"
        return f"import cfgen\n\nmodel = {load}\nmade = model.generate({', '.join(arguments)})\nmade.save({FOLDER!r})"


def _as_path(name: str) -> str:
    """A file's name that no command takes for an option."""
    return f"./{name}" if name.startswith("-") else name
