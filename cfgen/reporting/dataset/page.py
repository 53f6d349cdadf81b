"""A look at a data set as one page that opens offline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cfgen.reporting.dataset import words
from cfgen.reporting.numbers import count_of, share, short
from cfgen.reporting.pages import page, page_picture

if TYPE_CHECKING:
    from cfgen.graph_check import Tested
    from cfgen.reporting.dataset.overlap import Overlap
    from cfgen.reporting.dataset.summary import DataSummary

__all__ = ["attribute_cells", "data_page", "overlap_cells"]

MOST_PAIRS = 20  # of the associations, the strongest
MOST_TESTS = 40  # of the independences, those with the smallest p-values
MOST_COUNTS = 3  # values of an attribute whose numbers of images are told one by one
ATTRIBUTE_HEADS = ("attribute", "kind", "unit", "images with each value", "lowest", "highest", "mean", "std")
OVERLAP_HEADS = ("do", "have it", "do not", "worth", "unlike all that have it", "fewest have it", "enough")


class Row(NamedTuple):
    """A line of a table as the templates take it."""

    name: str
    cells: list[str]
    classes: str = ""


def data_page(report: DataSummary, pictures: Mapping[str, bytes], files: Sequence[str]) -> str:
    """The page; `pictures` are PNG files by name, `files` what lies beside it."""
    check = report.check
    tests = sorted(check.independences, key=lambda one: one.found.p_value)
    associations = report.association_records()
    drawn = {
        "sheet": "training images with their attributes",
        "graph": "the causal graph: " + "; ".join(f"{cause} causes {effect}" for cause, effect in report.graph.edges),
        "associations": "the strength of association of each pair of attributes, as in the table",
    }
    return page(
        "data.html",
        title=report.title,
        about=report.about,
        counts=counts_line(report),
        findings=report.findings,
        description=report.description,
        attribute_heads=ATTRIBUTE_HEADS,
        attributes=[Row(cells[0], cells[1:]) for cells in map(attribute_cells, report.attributes)],
        pictures={n: page_picture(pictures[f"{n}.png"], text) for n, text in drawn.items() if f"{n}.png" in pictures},
        words=words,
        associations=[
            Row(
                f"{one['one']}, {one['other']}",
                [one["measure"], f"{one['strength']:.2f}", words.p_text(one["p_value"])],
            )
            for one in associations[:MOST_PAIRS]
        ],
        pairs=len(associations),
        most_pairs=MOST_PAIRS,
        summary=words.check_summary(check),
        contradictions=[words.contradiction(one) for one in check.contradictions],
        unseen=[words.unseen_edge(one) for one in check.unseen_edges],
        tests=[
            Row(str(one.statement), tested_cells(one), "significant" if one.rejected else "")
            for one in tests[:MOST_TESTS]
        ],
        edges=[Row(f"{one.statement.other} → {one.statement.one}", tested_cells(one)) for one in check.edges],
        number_of_tests=len(tests),
        most_tests=MOST_TESTS,
        untested=check.untested,
        overlap_heads=OVERLAP_HEADS,
        overlap=[Row(one.do, overlap_cells(one), "" if not one.problem else "baseline") for one in report.overlap],
        problems=[(one.do, one.problem) for one in report.overlap if one.problem],
        files=", ".join(files),
    )


def counts_line(report: DataSummary) -> str:
    """How many images there are, and how large.

    Used by the terminal, too.
    """
    channels, height, width = report.image_shape
    kind = {1: "grey", 3: "colour"}.get(channels, f"{channels} channels")
    splits = ", ".join(f"{size:,} {split}" for split, size in report.splits.items())
    return f"{count_of(sum(report.splits.values()), 'image')} ({splits}), {width} x {height} pixels, {kind}"


def attribute_cells(record: Mapping[str, Any]) -> list[str]:
    """The cells of an attribute, as text."""
    figures = [record[head] for head in ("lowest", "highest", "mean", "std")]
    shown = [
        "" if value is None else number_text(value) if isinstance(value, float) else str(value) for value in figures
    ]
    return [record["attribute"], record["kind"], record["unit"], counts_text(record), *shown]


def counts_text(record: Mapping[str, Any], most: int | None = MOST_COUNTS) -> str:
    """How many images have which value of an attribute; of more values than `most`, the fewest and the most.

    >>> counts_text({"counts": {"0": 1200, "1": 30}}), counts_text({"counts": {"a": 5, "b": 3, "c": 4, "d": 4}})
    ('0: 1,200; 1: 30', '4 values, 3 (b) to 5 (a)')
    """
    counts: dict[str, int] = record.get("counts") or {}
    if most is None or len(counts) <= most:
        return "; ".join(f"{value}: {count:,}" for value, count in counts.items())
    low, high = min(counts, key=counts.__getitem__), max(counts, key=counts.__getitem__)
    if counts[low] == counts[high]:
        return f"{len(counts)} values, {counts[low]:,} each"
    return f"{len(counts)} values, {counts[low]:,} ({low}) to {counts[high]:,} ({high})"


def number_text(value: float) -> str:
    """A number with its sign.

    >>> number_text(-0.25), number_text(1.0)
    ('-0.2500', '1')
    """
    return f"{value:.0f}" if value.is_integer() else f"-{short(-value)}" if value < 0 else short(value)


def tested_cells(tested: Tested) -> list[str]:
    found = tested.found
    return [f"{found.strength:.2f}", f"{found.statistic:.1f}", str(found.freedom), words.p_text(found.p_value),
        words.p_text(tested.adjusted)]  # fmt: skip


def overlap_cells(one: Overlap) -> list[str]:
    """The cells of an intervention after its name, as text."""
    return [
        f"{one.have:,}",
        f"{one.changed:,}",
        "" if one.effective is None else f"{one.effective:.0f}",
        "" if one.unlike is None else share(one.unlike),
        str(one.thinnest or ""),
        "no" if one.problem else "yes",
    ]
