"""What is said of a folder: by the arguments of the data set, and by `attributes.yaml` beside its table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import yaml

from cfgen.errors import UserError, unknown_name
from datamodules.sources.framing import FRAMINGS

__all__ = ["Settings", "as_yaml", "attribute_name"]

KEYS = ("attributes", "target", "edges", "mechanisms", "leave_out", "image_size", "channels", "framing")


def attribute_name(column: str) -> str:
    """What a column is called in commands and files, which cannot take spaces, points, commas and slashes.

    >>> attribute_name("Haarfarbe (natürlich)"), attribute_name("hair colour")
    ('Haarfarbe_(natürlich)', 'hair_colour')
    """
    return re.sub(r"[\s.=,/\\]+", "_", column.strip())


@dataclass(frozen=True)
class Settings:
    """What is said, None where nothing is: `attributes` has what is said of each, `only` which of them models see."""

    attributes: Mapping[str, Mapping[str, Any]] | None = None
    only: Sequence[str] | None = None
    target: Mapping[str, Any] | None = None
    edges: Sequence[Sequence[str]] | None = None
    mechanisms: Mapping[str, Mapping[str, Any]] | None = None
    leave_out: Sequence[str] | None = None
    image_size: int | None = None
    channels: int | None = None
    framing: str | None = None

    @classmethod
    def of(cls, said: Mapping[str, Any], where: str = "") -> Settings:
        """From plain values, as a config or attributes.yaml has them; `where` is the file they are from."""

        def refuse(key: str, expected: str) -> UserError:
            start = f"{where}: {key}: " if where else ""
            return UserError(f"{start}expected {expected}, not {said[key]!r}", None if where else key)

        for key in said:
            if key not in KEYS:
                raise UserError(f"{where}: {unknown_name('key', key, KEYS)}")
        given = {key: value for key, value in said.items() if value is not None}
        attributes, target = given.get("attributes"), given.get("target")
        if isinstance(attributes, Mapping):
            if not all(value is None or isinstance(value, Mapping) for value in attributes.values()):
                raise refuse("attributes", "a kind for each name, as {size: {kind: continuous}}")
            given["attributes"] = {attribute_name(str(name)): dict(spec or {}) for name, spec in attributes.items()}
        elif attributes is not None:
            if isinstance(attributes, str) or not isinstance(attributes, Sequence):
                raise refuse("attributes", "names, or a kind for each name")
            given["only"] = [attribute_name(str(name)) for name in given.pop("attributes")]
        if isinstance(target, str):
            given["target"] = {"name": attribute_name(target)}
        elif isinstance(target, Mapping) and isinstance(target.get("name"), str):
            given["target"] = {**target, "name": attribute_name(target["name"])}
        elif target is not None:
            raise refuse("target", "the name of a column, or {name: NAME, kind: KIND}")
        if "leave_out" in given:
            if isinstance(given["leave_out"], str) or not isinstance(given["leave_out"], Sequence):
                raise refuse("leave_out", "a list of columns")
            given["leave_out"] = [attribute_name(str(name)) for name in given["leave_out"]]
        for key, kind, expected in (
            ("edges", Sequence, "[cause, effect] pairs"),
            ("mechanisms", Mapping, "a kind for each"),
        ):
            if key in given and (isinstance(given[key], str) or not isinstance(given[key], kind)):
                raise refuse(key, expected)
        if "edges" in given:
            if not all(isinstance(edge, list | tuple) and len(edge) == 2 for edge in given["edges"]):
                raise refuse("edges", "[cause, effect] pairs")
            given["edges"] = [[attribute_name(str(name)) for name in edge] for edge in given["edges"]]
        if "mechanisms" in given:
            given["mechanisms"] = {attribute_name(str(name)): how for name, how in given["mechanisms"].items()}
        if not isinstance(size := given.get("image_size", 1), int) or size < 1:
            raise refuse("image_size", "a number of pixels")
        if given.get("channels", 1) not in (1, 3):
            raise refuse("channels", "1 (grey) or 3 (colour)")
        if given.get("framing", "crop") not in FRAMINGS:
            raise refuse("framing", " or ".join(FRAMINGS))
        return cls(**given)

    def over(self, other: Settings) -> Settings:
        """These, and the other's where these say nothing; of attributes, what is said of each."""
        ours = {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None}
        if self.attributes is not None and other.attributes is not None:
            ours["attributes"] = {**other.attributes, **self.attributes}
        return replace(other, **ours)

    @property
    def complete(self) -> bool:
        """Whether nothing is left to be found in the folder before models can be built."""
        said = (self.attributes, self.edges, self.mechanisms, self.image_size, self.channels, self.framing)
        return None not in said and all("kind" in spec for spec in (self.attributes or {}).values())


def as_yaml(settings: Settings, doubts: Mapping[str, str], notes: Sequence[str]) -> str:
    """attributes.yaml: settings in full, with a remark at every guess that should be looked at."""

    def inline(value: Any) -> str:
        text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6)
        return text.strip().removesuffix("...").strip()

    def line(key: str, value: Any, doubt: str = "") -> str:
        return f"{inline(key)}: {inline(value)}" + (f"  # CHECK: {doubt}" if doubt else "")

    lines = [f"# {note}" for note in notes] + ["attributes:"]
    for name, spec in (settings.attributes or {}).items():
        lines.append("  " + line(name, dict(spec), doubts.get(name, "")))
    if settings.target is None:
        lines.append("target: null  # the column that a classifier answers")
    else:
        lines.append(line("target", dict(settings.target), doubts.get(settings.target["name"], "")))
    edges = [list(edge) for edge in settings.edges or ()]
    lines.append(line("edges", edges) + ("" if edges else "  # [cause, effect] pairs; without, all are independent"))
    lines.append(line("mechanisms", {name: dict(how) for name, how in (settings.mechanisms or {}).items()}))
    lines.append(line("leave_out", list(settings.leave_out or ())))
    lines += [line(key, getattr(settings, key)) for key in ("image_size", "channels", "framing")]
    return "\n".join(lines) + "\n"
