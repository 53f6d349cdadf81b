"""An audit's folder: tables, figures, the facts it is reproduced from, and the report that shows them all."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from cfgen.audit import figures as audit_figures
from cfgen.audit.report import DPI, Picture, Report, report_html
from cfgen.audit.results import Findings, flips
from cfgen.audit.run import AFFINE, Audit
from cfgen.runs.folders import cannot_write, new_run_folder, write_atomically

__all__ = ["new_folder", "write_folder"]

EXAMPLES = 4  # shown of each intervention and direction
SHOWN = 4  # attributes on either side of the ranking, as in Fig. 7


@contextlib.contextmanager
def new_folder(root: Path, out: str | None) -> Iterator[Path]:
    """`out`, or else the next free `root/audits/NNN`: made before the work, and gone again where nothing comes of it."""
    wanted = Path(out) if out else root / "audits"
    made = [path for path in (wanted, *wanted.parents) if not path.exists()]
    try:
        if out:
            wanted.mkdir(parents=True)
            folder = wanted
        else:
            folder = new_run_folder(root, "audits")
    except OSError as error:
        raise cannot_write(wanted, error) from error
    try:
        yield folder
    except BaseException:
        with contextlib.suppress(OSError):  # what holds something stays
            for path in dict.fromkeys([folder, *made]):
                path.rmdir()
        raise


def write_folder(
    folder: Path, audit: Audit, found: Findings, facts: dict[str, Any], label: str, threshold: float
) -> None:
    """Writes everything, each file whole or not at all; `report.html` comes last."""
    pictures = make_pictures(audit, found, label, threshold)
    report = Report(found, audit.plan, facts, label, threshold, pictures)
    texts = {"importance.csv": table([vars(one) for one in found.importance])} if found.importance else {}
    texts |= {
        "bias.csv": table([row.record() for row in found.bias]),
        "audit.json": json.dumps(
            facts
            | {
                "label": label,
                "accuracy": None if math.isnan(found.accuracy) else found.accuracy,
                "generator_error": found.generator,
            },
            indent=1,
            default=str,
        ),
        "report.html": report_html(report),
    }
    try:
        for picture in pictures:
            write(folder / picture.file, picture.png)
        for name, text in texts.items():
            write(folder / name, text.encode())
    except OSError as error:
        raise cannot_write(folder, error) from error


def write(path: Path, content: bytes) -> None:
    write_atomically(path, lambda file: file.write(content))


def table(records: Sequence[dict[str, Any]]) -> str:
    """Records as CSV, numbers with six digits."""
    text = io.StringIO()
    names = list(dict.fromkeys(name for record in records for name in record))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in record.items()})
    return text.getvalue()


def make_pictures(audit: Audit, found: Findings, label: str, threshold: float) -> list[Picture]:
    scores, plan = audit.scores, audit.plan
    plots = {
        "fairness_do": ([f"do/{name}" for name in plan.do], [f"do({name})".replace(",", ",\n") for name in plan.do]),
        "fairness_affine": (list(AFFINE), list(AFFINE)),
    }
    pictures = []
    for name, (columns, titles) in plots.items():
        figure = audit_figures.fairness_scatter(scores, columns, titles, threshold, label)
        pictures.append(Picture(name, f"{name}.png", png(figure)))
    if found.importance:
        figure = audit_figures.attribute_ranking(found.importance, SHOWN, label)
        pictures.append(Picture("ranking", "attribute_ranking.png", png(figure)))
    for name in plan.do:
        for way, rows in flips(scores, name, threshold, EXAMPLES, plan.seed).items():
            if len(rows):
                images = audit.examples(name, rows)
                figure = audit_figures.flipped_answers(images, scores["base"][rows], scores[f"do/{name}"][rows])
                stem = f"flipped_{way}_{re.sub(r'[^A-Za-z0-9_=+.-]', '+', name)}"
                pictures.append(Picture(f"flipped/{way}/{name}", f"{stem}.png", png(figure)))
    graph = audit.mechanism.scm.graph.draw()
    return [*pictures, Picture("graph", "causal_graph.png", png(graph))]


def png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    return buffer.getvalue()
