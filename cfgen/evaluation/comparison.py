"""Several models side by side: one row a score, one column a model, as Markdown, HTML and CSV."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from cfgen.errors import UserError
from cfgen.evaluation.options import EvaluateOptions
from cfgen.evaluation.pictures import first_images
from cfgen.evaluation.results import Evaluation, blank, with_error
from cfgen.evaluation.run import evaluations
from cfgen.evaluation.statistics import Score
from cfgen.evaluation.subject import Model
from cfgen.figures import ablation_rows
from cfgen.options import documented_by, make_options
from cfgen.reporting.files import new_results, png, table
from cfgen.reporting.pages import page, page_picture

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from cfgen.evaluation.metrics.base import Description

__all__ = ["Comparison", "compare"]

ABLATION = 10  # images of the figure
KEY = (
    "Bold: the best of a row, where less (or, of shares, more) is better. After ±, one standard error over images (of FID, "
    "over seeds)."
)


@documented_by(EvaluateOptions)
def compare(
    models: Sequence[Model], *, each: Callable[[Evaluation], None] = lambda evaluation: None, **options: Any
) -> Comparison:
    """Evaluates several models on the same images; `options` are the fields of `EvaluateOptions`.

    `each` is called with every model's evaluation as it is done, for instance to save it.
    """
    if len(models) < 2:
        raise UserError("a comparison needs two models or more", argument="models")
    chosen = make_options(EvaluateOptions, options)
    subjects, steps = evaluations(models, chosen)
    results: dict[str, Evaluation] = {}
    for evaluation in steps:
        results[evaluation.name] = evaluation
        each(evaluation)
    ablation = ablation_rows({subject.name: first_images(subject, chosen.seed, ABLATION) for subject in subjects})
    return Comparison(results, ablation)


class Row(NamedTuple):
    """A score of all models: its name, each model's text, and the models whose value is the best."""

    name: str
    texts: dict[str, str]
    best: set[str]
    baseline: bool


@dataclass(frozen=True)
class Comparison:
    """Evaluations by model, and the reconstructions of the same images by every model (Appendix K)."""

    results: dict[str, Evaluation]
    ablation: Figure

    @property
    def title(self) -> str:
        return f"{len(self.results)} models, {next(iter(self.results.values())).title}"

    @property
    def key(self) -> str:
        """What the signs mean, and who judged."""
        judges = dict.fromkeys(result.judges_in_words for result in self.results.values())
        return " ".join([KEY, *filter(None, judges)])

    @property
    def descriptions(self) -> dict[str, Description]:
        """Of all scores that any model has."""
        return {name: what for result in self.results.values() for name, what in result.descriptions.items()}

    def to_frame(self) -> pd.DataFrame:
        """One row a score, one column a model."""
        import pandas as pd

        return pd.DataFrame(
            {
                model: {name: score.value for name, score in result.scores.items()}
                for model, result in self.results.items()
            }
        ).rename_axis("name")

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """By model, what its metrics.json holds."""
        return {model: result.to_dict() for model, result in self.results.items()}

    def save(self, folder: str | Path | None = None) -> list[Path]:
        """Writes comparison.html, comparison.md, comparison.csv and ablation.png into a new folder; returns the paths.

        By default that is the next free `comparisons/NNN`.
        """
        picture = png(self.ablation)
        files: dict[str, bytes | str] = {
            "ablation.png": picture,
            "comparison.csv": table(self.records()),
            "comparison.md": self.markdown(),
            "comparison.html": self.html(picture),
        }
        with new_results(Path(), "comparisons", folder) as new:
            new.write(files)
        return [new.path / name for name in files]

    def groups(self) -> dict[str, list[Row]]:
        """Titles, and under each the scores that any model has, in the order they were measured."""
        groups: dict[str, list[Row]] = {}
        for name, what in self.descriptions.items():
            scores = {model: result.scores[name] for model, result in self.results.items() if name in result.scores}
            if scores:
                texts = {model: with_error(scores[model]) if model in scores else "" for model in self.results}
                groups.setdefault(what.group, []).append(
                    Row(name, texts, best_of(scores, what.direction), what.baseline)
                )
        return groups

    def markdown(self) -> str:
        text = f"# {self.title}\n\n{self.key}\n"
        for title, rows in self.groups().items():
            text += f"\n## {title}\n\n| | {' | '.join(self.results)} |\n|---|{'---:|' * len(self.results)}\n"
            for row in rows:
                cells = (f"**{cell}**" if model in row.best else cell for model, cell in row.texts.items())
                text += f"| {row.name} | {' | '.join(cells)} |\n"
        return text + "\n![Real images, and the reconstructions of each model](ablation.png)\n"

    def html(self, picture: bytes) -> str:
        """One page that opens offline, on a phone and in the dark."""
        bold = Markup("<strong>{}</strong>")
        groups = {
            title: [
                {
                    "name": row.name,
                    "cells": [bold.format(text) if model in row.best else text for model, text in row.texts.items()],
                    "classes": "baseline" if row.baseline else "",
                }
                for row in rows
            ]
            for title, rows in self.groups().items()
        }
        models = list(self.results)
        shown = page_picture(picture, f"Rows of images: real, then the reconstructions of {', '.join(models)}")
        return page("comparison.html", title=self.title, key=self.key, models=models, groups=groups, ablation=shown)

    def records(self) -> list[dict[str, Any]]:
        """One line a score; of each model its value, its standard error over images and, of several seeds, that over seeds, and
        of several judges the lowest and the highest."""
        several = any(result.over_seeds for result in self.results.values())
        judges = any(result.several_judges for result in self.results.values())
        lines = []
        for name in (row.name for rows in self.groups().values() for row in rows):
            line: dict[str, str | float] = {"name": name}
            for model, result in self.results.items():
                score = result.scores.get(name, Score(math.nan, math.nan, 0))
                line |= {model: score.value, f"{model} standard_error": blank(score.standard_error)}
                line |= {f"{model} standard_error_over_seeds": blank(score.over_seeds)} if several else {}
                if judges:
                    line |= {
                        f"{model} lowest_judge": blank(score.lowest),
                        f"{model} highest_judge": blank(score.highest),
                    }
            lines.append(line)
        return lines


def best_of(scores: Mapping[str, Score], direction: int) -> set[str]:
    """The models with the best value of a score; none where nothing says what is best.

    >>> best_of({"a": Score(1.0, 0.1, 9), "b": Score(2.0, 0.1, 9)}, direction=-1)
    {'a'}
    """
    values = {model: direction * score.value for model, score in scores.items() if not math.isnan(score.value)}
    if not direction or len(values) < 2:
        return set()
    return {model for model, value in values.items() if value == max(values.values())}
