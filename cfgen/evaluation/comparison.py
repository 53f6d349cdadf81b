"""Several runs side by side: one row a metric, one column a run, as Markdown, HTML and CSV."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping
from html import escape

from cfgen.attributes import Continuous, Schema
from cfgen.audit.folder import table
from cfgen.audit.text import STYLE
from cfgen.evaluation.report import blank, with_error
from cfgen.evaluation.statistics import Score

__all__ = ["best_of", "comparison_csv", "comparison_html", "comparison_markdown", "direction"]

Results = Mapping[str, Mapping[str, Score]]  # by run, then by metric

GROUPS = {
    "median_abs_error/": "Effectiveness, measured: median absolute error (Table 1)",
    "accuracy/": "Label counterfactuals: share in which a classifier sees the label (Appendix G)",
    "mse_x": "Reconstruction and quality (Table 2)",
    "mae_z": "Reconstruction and quality (Table 2)",
    "fid_": "Reconstruction and quality (Table 2)",
    "composition": "Composition: what null interventions change, 0 to 255",
    "reversibility": "Reversibility: what an intervention and its undoing change, 0 to 255",
    "commutativity": "Commutativity: what the order of two interventions changes, 0 to 255",
    "minimality": "Minimality: counterfactual latent divergence, from 0.693; doing nothing scores 1.313",
    "true_error/": "Distance from the true counterfactual, 0 to 255",
    "predicted/": "Effectiveness, read by a predictor: mean absolute error, or share right",
    "bias/": "Bias of the classifier: a property of it as much as of the run",
}
LOWER = ("median_abs_error/do", "mse_x", "mae_z", "fid_", "composition", "reversibility", "commutativity", "minimality")
KEY = (
    "Bold: the best of a row, where less (or, of shares, more) is better. After ±, one standard error over images (of FID, "
    "over seeds)."
)


def direction(name: str, schema: Schema) -> int:
    """-1 where less is better, 1 where more is, 0 where neither: what does not depend on the model, or is no merit."""
    if name.startswith("predicted/do"):
        return -1 if isinstance(schema[name.rsplit("/", 1)[1]], Continuous) else 1
    if name.startswith(("accuracy/do", "true_error/changed")):
        return 1
    return -1 if name.startswith((*LOWER, "true_error/do", "true_error/effect")) else 0


def best_of(name: str, results: Results, schema: Schema) -> set[str]:
    """The runs with the best value of a metric; none where nothing says what is best."""
    way = direction(name, schema)
    values = {run: way * scores[name].value for run, scores in results.items() if name in scores}
    values = {run: value for run, value in values.items() if not math.isnan(value)}
    if not way or len(values) < 2:
        return set()
    return {run for run, value in values.items() if value == max(values.values())}


def grouped(results: Results) -> Iterator[tuple[str, list[str]]]:
    """Titles, and the metrics under each that any run has, in the order they were measured."""
    names = list(dict.fromkeys(name for scores in results.values() for name in scores))
    for title in dict.fromkeys(GROUPS.values()):
        starts = tuple(start for start, head in GROUPS.items() if head == title)
        if found := [name for name in names if name.startswith(starts)]:
            yield title, found


def comparison_markdown(title: str, results: Results, schema: Schema) -> str:
    text = f"# {title}\n\n{KEY}\n"
    for head, names in grouped(results):
        text += f"\n## {head}\n\n| | {' | '.join(results)} |\n|---|{'---:|' * len(results)}\n"
        for name in names:
            best = best_of(name, results, schema)
            cells = [(run, with_error(scores[name]) if name in scores else "") for run, scores in results.items()]
            text += f"| {name} | {' | '.join(f'**{cell}**' if run in best else cell for run, cell in cells)} |\n"
    return text + "\n![Real images, and the reconstructions of each run](ablation.png)\n"


def comparison_html(title: str, results: Results, schema: Schema, picture: bytes) -> str:
    """One page that opens offline, on a phone and in the dark."""
    body = f"<h1>{escape(title)}</h1><p>{escape(KEY)}</p>"
    heads = "".join(f'<th scope="col">{escape(run)}</th>' for run in results)
    for head, names in grouped(results):
        lines = ""
        for name in names:
            best = best_of(name, results, schema)
            cells = [(run, with_error(scores[name]) if name in scores else "") for run, scores in results.items()]
            marked = (f"<td{' class=significant' if run in best else ''}>{escape(cell)}</td>" for run, cell in cells)
            lines += f'<tr><th scope="row">{escape(name)}</th>{"".join(marked)}</tr>'
        body += (
            f"<section><h2>{escape(head)}</h2><div class=scroll tabindex=0><table><thead><tr><td></td>{heads}</tr></thead>"
            f"<tbody>{lines}</tbody></table></div></section>"
        )
    told = f"Rows of images: real, then the reconstructions of {', '.join(results)}"
    data = base64.b64encode(picture).decode()
    body += (
        f"<section><h2>The same images, reconstructed</h2><figure><img alt='{escape(told, quote=True)}' "
        f"src='data:image/png;base64,{data}'></figure></section>"
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )


def comparison_csv(results: Results) -> str:
    """One line a metric; of each run its value, its standard error over images and, of several seeds, that over seeds."""
    several = any(not math.isnan(score.over_seeds) for scores in results.values() for score in scores.values())
    lines = []
    for _, names in grouped(results):
        for name in names:
            line: dict[str, str | float] = {"name": name}
            for run, scores in results.items():
                score = scores.get(name, Score(math.nan, math.nan, 0))
                line |= {run: score.value, f"{run} standard_error": blank(score.standard_error)}
                line |= {f"{run} standard_error_over_seeds": blank(score.over_seeds)} if several else {}
            lines.append(line)
    return table(lines)
