"""What kind of attribute a column is, and its cells as numbers: what is said of it, and what can be inferred where nothing is.

Two values that mean yes and no are binary; other texts and few whole numbers are categorical; the rest is continuous.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from cfgen.errors import UserError, unknown_name
from datamodules.image_table.files import Rows
from datamodules.image_table.findings import Finding

__all__ = ["Column", "Described", "described"]

FEW = 10  # different whole numbers that are taken for categories
ENOUGH = 20  # rows that a value needs in training
YES, NO = ("1", "yes", "true", "y", "t"), ("0", "-1", "no", "false", "n", "f")
KINDS = ("binary", "categorical", "continuous")
KEYS = ("kind", "values", "low", "high", "unit")
NO_TRAINING_ROW = "no training row has {}{}: move some such rows to training, or remove them"
LEAVE_OUT = "leave the column out (leave_out in attributes.yaml)"


@dataclass(frozen=True)
class Column:
    """The cells of a column: as text ("" where missing), and as numbers (NaN where they are none)."""

    name: str
    text: np.ndarray
    number: np.ndarray

    @classmethod
    def of(cls, name: str, cells: pd.Series) -> Column:
        missing = cells.isna().to_numpy()
        text = np.array([as_text(cell) for cell in cells.tolist()], dtype=object)
        text[missing] = ""
        number = pd.to_numeric(pd.Series(text, dtype=object), errors="coerce").to_numpy(dtype=np.float64)
        number = np.where(np.isfinite(number), number, np.nan)
        if not np.isnan(number).any():
            text = np.array(
                [as_text(plain(value)) for value in number.tolist()], dtype=object
            )  # 1 and 1.0 are one value
        return cls(name, text, number)

    @property
    def numeric(self) -> bool:
        return bool(np.isfinite(self.number).all())

    def values(self, rows: np.ndarray) -> list[Any]:
        """The different values in some rows: numbers in order where all are numbers, else texts."""
        if self.numeric:
            return [plain(value) for value in np.unique(self.number[rows]).tolist()]
        return sorted(set(self.text[rows]))


def plain(value: float) -> int | float:
    """A whole number as such."""
    return int(value) if value == int(value) else value


def as_text(cell: Any) -> str:
    return str(cell).lower() if isinstance(cell, bool | np.bool_) else str(cell).strip()


@dataclass
class Described:
    """A column as numbers (positions for categorical ones), its kind in full, and what to look at."""

    spec: dict[str, Any]
    numbers: np.ndarray
    doubt: str = ""
    findings: list[Finding] = field(default_factory=list)


def described(
    column: Column, rows: Rows, train: np.ndarray, said: Mapping[str, Any], is_target: bool = False
) -> Described:
    """What a column is, from what is `said` of it and its cells; `train` marks the training rows."""
    if unknown := [key for key in said if key not in KEYS]:
        raise UserError(f"{column.name}: {unknown_name('key', unknown[0], KEYS)}")
    if said.get("kind", "binary") not in KINDS:
        raise UserError(f"{column.name}: {unknown_name('kind', str(said['kind']), KINDS)}")
    if ("low" in said) != ("high" in said):
        raise UserError(f"{column.name}: a range has both low and high")
    if not isinstance(said.get("values", []), list | tuple):
        raise UserError(f"{column.name}: expected a list of values, not {said['values']!r}")
    result = Described({}, np.zeros(len(column.text)))
    if len(empty := np.flatnonzero(column.text == "")):
        message = f"no value{also(empty)}; fill it in, remove the row, or {LEAVE_OUT}"
        result.findings.append(rows.finding(int(empty[0]), message, column.name))
        return result
    if len(values := column.values(train)) < 2:
        told = f"every training row has {values[0]!r}" if values else "there is no training row"
        result.findings.append(Finding("error", rows.source, f"{told}: {LEAVE_OUT}", column=column.name))
        return result
    spec, result.doubt = inferred(column, train, said, is_target)
    if spec["kind"] == "continuous":
        _as_continuous(column, rows, train, spec, result)
    else:
        _as_levels(column, rows, train, spec, result, said)
    result.spec = spec
    return result


def inferred(column: Column, train: np.ndarray, said: Mapping[str, Any], is_target: bool) -> tuple[dict[str, Any], str]:
    """The kind, and what is questionable about it; what is said stays as it is."""
    spec, doubt = dict(said), ""
    levels = column.values(np.ones(len(train), bool))
    words = {str(level).casefold() for level in levels}
    yes_or_no = words <= {*YES, *NO} and words & {*YES} and words & {*NO}
    if "kind" not in spec:
        if "values" in spec:
            spec["kind"] = "categorical"
        elif "low" in spec:
            spec["kind"] = "continuous"
        elif yes_or_no and (len(levels) == 2 or not column.numeric):
            spec["kind"] = "binary"
        elif column.numeric and len(levels) == 2:
            spec |= {"kind": "binary", "values": levels}
            doubt = f"{levels[1]} counts as yes, {levels[0]} as no; if they are names, write kind: categorical"
        elif column.numeric and len(levels) <= FEW and all(isinstance(level, int) for level in levels):
            spec["kind"] = "categorical"
            doubt = "few whole numbers are taken for categories; if they are amounts, write {kind: continuous}"
        elif column.numeric:
            spec["kind"] = "continuous"
            if len(levels) <= 2 * FEW and all(isinstance(level, int) for level in levels):
                doubt = "whole numbers are taken for amounts; if they are codes, write {kind: categorical}"
        elif np.isfinite(column.number).mean() > 0.9:
            spec["kind"] = "continuous"  # a slip of the pen, which is then found
        else:
            spec["kind"] = "binary" if is_target and len(levels) == 2 else "categorical"
            if len({str(level).casefold() for level in levels}) < len(levels):
                doubt = "some values differ in capital letters alone"
    if spec["kind"] == "categorical" and "values" not in spec:
        spec["values"] = column.values(train)
    if spec["kind"] == "binary" and "values" not in spec and not yes_or_no:
        spec["values"] = column.values(train)
    return spec, doubt


def _as_continuous(column: Column, rows: Rows, train: np.ndarray, spec: dict[str, Any], result: Described) -> None:
    if "values" in spec:
        raise UserError(f"{column.name}: a continuous attribute has low and high, and no values")
    if len(wrong := np.flatnonzero(np.isnan(column.number))):
        text = column.text[wrong[0]]
        comma = "; write it with a point" if "," in text else ""
        result.findings.append(
            rows.finding(int(wrong[0]), f"{text!r} is not a number{comma}{also(wrong)}", column.name)
        )
        return
    result.numbers = column.number
    if "low" in spec:
        return
    low, high, outliers = robust_range(column.number[train])
    spec |= {"low": low, "high": high}
    far = np.flatnonzero((column.number < low) | (column.number > high))
    if outliers and len(far):
        message = f"{column.number[far[0]]:g} is far outside the rest, {low:g} to {high:g}{also(far)}: is it right?"
        result.findings.append(
            Finding("warning", rows.sources[far[0]], message, int(rows.numbers[far[0]]), column.name)
        )
        result.doubt = (
            result.doubt or f"{len(far):,} values are outside: they are kept, and low and high leave them out"
        )


def robust_range(values: np.ndarray) -> tuple[float, float, bool]:
    """The smallest and largest value, rounded outwards; where single ones are far from the rest, that of the rest.

    Far is more than twice the distance of the 5th and the 95th percentile away from these: 8 standard deviations of a normal
    distribution.

    >>> robust_range(np.arange(1, 101.0)), robust_range(np.append(np.arange(1, 101.0), 1e6))
    ((1.0, 100.0, False), (1.0, 276.0, True))
    """
    lowest, highest = float(values.min()), float(values.max())
    first, last = (float(value) for value in np.quantile(values, [0.05, 0.95]))
    reach = 2 * (last - first)
    if reach == 0:  # nearly all are the same
        return rounded(lowest, math.floor), rounded(highest, math.ceil), False
    low, high = max(lowest, first - reach), min(highest, last + reach)
    return rounded(low, math.floor), rounded(high, math.ceil), low > lowest or high < highest


def rounded(value: float, to: Any) -> float:
    """Four digits of a number, rounded down or up."""
    if value == 0:
        return 0.0
    scale = 10.0 ** (math.floor(math.log10(abs(value))) - 3)
    return float(f"{to(round(value / scale, 6)) * scale:.4g}")


def _as_levels(
    column: Column, rows: Rows, train: np.ndarray, spec: dict[str, Any], result: Described, said: Mapping[str, Any]
) -> None:
    """Binary and categorical columns: the position of each cell among the values."""
    if "low" in spec:
        raise UserError(f"{column.name}: a {spec['kind']} attribute has values, and no low and high")
    values = list(spec.get("values") or (False, True))
    if spec["kind"] == "binary" and len(values) != 2:
        raise UserError(f"{column.name}: a binary attribute has two values, not {values}")
    position: dict[str, int] = {}
    words: dict[str, int] = {}
    for number, value in enumerate(values):
        if isinstance(value, bool):  # stands for every word for it; YAML reads an unquoted yes as True
            words |= dict.fromkeys(YES if value else NO, number)
        else:
            position[as_text(value)] = number
    found = np.array([position.get(text, words.get(text.casefold(), -1)) for text in column.text.tolist()])
    result.numbers = found.astype(np.float64)
    if not said and len(texts := set(column.text.tolist())) * ENOUGH > len(column.text) and len(texts) > ENOUGH:
        message = f"{len(texts):,} different texts in {len(column.text):,} rows: it is no attribute; {LEAVE_OUT}"
        result.findings.append(Finding("error", rows.source, message, column=column.name))
        return
    names = ["no", "yes"] if values == [False, True] else [as_text(value) for value in values]
    if len(wrong := np.flatnonzero(found < 0)):
        value = column.text[wrong[0]]
        message = f"{value!r} is not one of {', '.join(names)}{also(wrong)}"
        if "values" in spec and "values" not in said:  # which are those of the training rows
            message = NO_TRAINING_ROW.format(f"{value!r}{also(wrong)}", meant(value, names))
        result.findings.append(rows.finding(int(wrong[0]), message, column.name))
        return
    counts = np.bincount(found[train], minlength=len(names)).tolist()
    usual = [name for name, count in zip(names, counts, strict=True) if count >= ENOUGH]
    for number, (name, count) in enumerate(zip(names, counts, strict=True)):
        if finding := _level(column, rows, name, count, usual, np.flatnonzero(found == number), bool(said)):
            result.findings.append(finding)


def _level(
    column: Column, rows: Rows, name: str, count: int, usual: Sequence[str], where: np.ndarray, declared: bool
) -> Finding | None:
    """What is wrong with one value of a column that so many training rows have; `usual` values have enough of them."""
    if not len(where):
        return Finding("error", rows.source, f"no row has {name!r}, which is among its values", column=column.name)
    first = int(where[0])
    if set(name) & set(",/\\") or not name.isprintable():
        message = (
            f"commands cannot name the value {name!r}: write it without comma, slash and signs that cannot be seen"
        )
        return rows.finding(first, message, column.name)
    if not count:
        message = NO_TRAINING_ROW.format(repr(name), meant(name, usual))
        return rows.finding(first, message, column.name)
    if count >= ENOUGH:
        return None
    keep = "to keep it, say the column's kind in attributes.yaml"
    few = f"only {count} training rows have {name!r}, fewer than {ENOUGH}{meant(name, usual)}"
    message = f"{few}: merge it with another value; {keep}"
    severity: Literal["error", "warning"] = "warning" if declared else "error"
    return Finding(severity, rows.sources[first], message, int(rows.numbers[first]), column.name)


def meant(value: str, usual: Sequence[str]) -> str:
    """The value that was meant, perhaps, where this one looks like a slip of the pen.

    >>> meant("slat", ["slate", "tile"]), meant("glass", ["slate", "tile"])
    (" (did you mean 'slate'?)", '')
    """
    near = difflib.get_close_matches(value, usual, n=1, cutoff=0.75)
    return f" (did you mean {near[0]!r}?)" if near else ""


def also(wrong: np.ndarray) -> str:
    """How many rows are like the first."""
    return f" (and {len(wrong) - 1:,} more rows)" if len(wrong) > 1 else ""
