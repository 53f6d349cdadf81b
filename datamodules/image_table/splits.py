"""Which rows train, validate and test: by a column, by folders, or drawn."""

from __future__ import annotations

import hashlib

import numpy as np

from datamodules.image_table.files import Rows
from datamodules.image_table.findings import Finding, TableError
from datamodules.sources.picture_files import SPLITS

__all__ = ["SPLIT", "shared_pictures", "split_of_rows"]

SPLIT = "split"
# as Hugging Face `datasets` knows them
WORDS = dict.fromkeys(("train", "training"), 0)
WORDS |= dict.fromkeys(("val", "validation", "valid", "dev"), 1)
WORDS |= dict.fromkeys(("test", "testing", "eval", "evaluation"), 2)


def split_of_rows(rows: Rows, seed: int) -> tuple[np.ndarray, str]:
    """The split of each row (0, 1 or 2), and in words where it is from.

    What neither a column nor folders say is drawn by the seed, a tenth of the pictures for each split, from those in training.
    """
    if SPLIT in rows.cells.columns:
        how = f"by the column {SPLIT}"
        told = (
            rows.cells[SPLIT]
            .astype(str)
            .str.strip()
            .str.casefold()
            .map(WORDS)
            .fillna(-1)
            .to_numpy(dtype=np.int64, copy=True)
        )
        if len(wrong := np.flatnonzero(told < 0)):
            cell = rows.cells[SPLIT].iloc[wrong[0]]
            message = f"train, val or test is expected, not {cell!r}; if it is no split, rename the column"
            raise TableError([rows.finding(int(wrong[0]), message, SPLIT)])
    else:
        told, how = np.array([by_folder(name) for name in rows.pictures.tolist()]), "by folders"
        if (told < 0).any():  # some pictures are in no such folder: folders do not say it
            told, how = np.zeros(len(told), dtype=np.int64), ""
    if not (told == 0).any():
        raise TableError([Finding("error", rows.source, "no row is in the training split")])
    drawn = [name for number, name in enumerate(SPLITS) if not (told == number).any()]
    for name in drawn:
        tenth = drawn_tenth(rows.pictures, told == 0, f"{seed} {name}")
        told[tenth] = SPLITS.index(name)
    if not (told == 0).any():
        raise TableError([Finding("error", rows.source, f"there are too few rows to draw {', '.join(drawn)} from")])
    if drawn:
        how = ", ".join(part for part in (how, f"{' and '.join(drawn)} drawn by seed {seed}") if part)
    return told, how


def by_folder(name: str) -> int:
    """The split whose name is that of a folder in a path, -1 where there is none.

    >>> by_folder("Train/1.png"), by_folder("pictures/validation/1.png"), by_folder("testing.png")
    (0, 1, -1)
    """
    return next((WORDS[part] for part in map(str.casefold, name.split("/")[:-1]) if part in WORDS), -1)


def drawn_tenth(pictures: np.ndarray, among: np.ndarray, seed: str) -> np.ndarray:
    """A tenth of all pictures, drawn among some; all rows of a picture together, whatever the order of the rows."""
    names = sorted(set(pictures[among].tolist()), key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())
    chosen = set(names[: max(1, round(len(set(pictures.tolist())) / 10))])
    return among & np.array([name in chosen for name in pictures.tolist()])


def shared_pictures(rows: Rows, split: np.ndarray) -> list[Finding]:
    """Pictures that rows of different splits name."""
    first: dict[str, int] = {}
    findings = []
    for row, name in enumerate(rows.pictures.tolist()):
        other = first.setdefault(name, row)
        if split[other] != split[row]:
            ours, theirs = SPLITS[split[row]], SPLITS[split[other]]
            message = (
                f"{name!r} is in the {ours} split and, by row {int(rows.numbers[other]):,}, in the {theirs} split too"
            )
            findings.append(rows.finding(row, f"{message}: keep it in one, or scores are too good", "file_name"))
    return findings
