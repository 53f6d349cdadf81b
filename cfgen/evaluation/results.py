"""What an evaluation found: scores with their descriptions, and figures, as a table, as JSON and as files."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfgen.errors import UserError
from cfgen.evaluation.metrics.base import Description
from cfgen.evaluation.statistics import Score
from cfgen.io.files import read_json
from cfgen.io.writing import write_files
from cfgen.reporting.files import png, table
from cfgen.reporting.numbers import count_of, short
from cfgen.runs.checksums import renewed_checksums

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Evaluation", "blank", "with_error", "with_spread"]

NO_JUDGES = (
    "No judge that comes with cfgen knows this data. Train some by `cfgen fit --config celeba_judge` (or morphomnist_judge, "
    "faces_judge; for data of your own add `--data MODULE.CLASS --name NAME`), and name each with --predictor."
)


@dataclass(frozen=True)
class Evaluation:
    """A model's scores by name, what each of them is, the images and seeds they are of (`facts`), and figures by name."""

    name: str
    scores: dict[str, Score]
    descriptions: dict[str, Description]
    facts: dict[str, Any]
    figures: dict[str, Figure] = field(default_factory=dict, repr=False)
    folder: Path | None = None

    @property
    def title(self) -> str:
        """What the scores are of: `2,000 test images, seed 0`."""
        first, seeds = self.facts["seed"], self.facts.get("seeds", 1)
        drawn = f"seed {first}" if seeds == 1 else f"seeds {first} to {first + seeds - 1}"
        return f"{count_of(self.facts['images'], self.facts['split'] + ' image')}, {drawn}"

    @property
    def over_seeds(self) -> bool:
        """Whether any score has a standard error over seeds."""
        return any(not math.isnan(score.over_seeds) for score in self.scores.values())

    @property
    def several_judges(self) -> bool:
        """Whether any score is the mean over several judges."""
        return any(len(score.judges) > 1 for score in self.scores.values())

    @property
    def judges_in_words(self) -> str:
        """Who judged, in a line; nothing where no judge was wanted."""
        names = self.facts.get("judges")
        if names is None:
            return ""
        spread = "; in brackets, the lowest and the highest of them" if self.several_judges else ""
        return f"Judges: {', '.join(names)}{spread}." if names else NO_JUDGES

    def to_frame(self) -> pd.DataFrame:
        """One row a score: its value, standard errors, the lowest and the highest judge, how many images it is of, what it is."""
        import pandas as pd

        rows = {}
        for name, score in self.scores.items():
            what = self.descriptions[name]
            rows[name] = {**score._asdict(), "lowest_judge": score.lowest, "highest_judge": score.highest}
            del rows[name]["judges"]
            rows[name] |= {"unit": what.unit, "direction": what.direction, "attribute": what.attribute}
        frame = pd.DataFrame.from_dict(rows, orient="index")
        return frame.rename(columns={"over_seeds": "standard_error_over_seeds"}).rename_axis("name")

    def to_dict(self) -> dict[str, Any]:
        """What metrics.json holds: values by name, facts, standard errors, every judge's own scores and what each score is.

        None is not a number.
        """
        content: dict[str, Any] = {name: finite(score.value) for name, score in self.scores.items()} | self.facts
        content["standard_errors"] = {
            name: finite(score.standard_error)
            for name, score in self.scores.items()
            if not math.isnan(score.standard_error)
        }
        if self.over_seeds:
            content["standard_errors_over_seeds"] = {
                name: score.over_seeds for name, score in self.scores.items() if not math.isnan(score.over_seeds)
            }
        by_judge = {
            name: dict(zip(self.descriptions[name].judges, map(finite, score.judges), strict=True))
            for name, score in self.scores.items()
            if score.judges
        }
        content |= {"scores_by_judge": by_judge} if by_judge else {}
        content["about"] = {
            name: {"unit": self.descriptions[name].unit, "attribute": self.descriptions[name].attribute}
            for name in self.scores
        }
        return content

    def save(self, folder: str | Path | None = None) -> list[Path]:
        """Writes metrics.json (of other splits metrics-SPLIT.json), metrics-SPLIT.csv and the figures; returns the paths.

        By default into the model's own folder, or for a packaged model into `runs`.  Scores of fewer images, or fewer of them,
        do not take the place of those that are there: their files are called `-partial`.
        """
        folder = self.folder if folder is None else Path(folder)
        if folder is None:
            raise UserError("this model has no folder of its own; name one", argument="folder")
        split = self.facts["split"]
        name = "metrics" if split == "test" else f"metrics-{split}"
        content = self.to_dict()
        partial = "-partial" if tells_less(content, folder / f"{name}.json") else ""
        files: dict[str, bytes | str] = {
            f"{name}{partial}.json": json.dumps(content, indent=1, allow_nan=False),
            f"metrics-{split}{partial}.csv": table(self.records()),  # metrics.csv is training's own
        }
        files |= {f"{name}-{split}.png": png(figure) for name, figure in self.figures.items()}
        with renewed_checksums(folder, files):
            return write_files(folder, files)

    def records(self) -> list[dict[str, Any]]:
        """One line a score; with several seeds, also the standard error over these; with several judges, their range."""
        lines = []
        for name, score in self.scores.items():
            line = {"name": name, "value": score.value, "standard_error": blank(score.standard_error), "n": score.n}
            line |= {"standard_error_over_seeds": blank(score.over_seeds)} if self.over_seeds else {}
            if self.several_judges:
                line |= {"lowest_judge": blank(score.lowest), "highest_judge": blank(score.highest)}
            lines.append(line)
        return lines


def tells_less(new: Mapping[str, Any], path: Path) -> bool:
    """Whether scores are of fewer images, or fewer scores, than those in a file: they must not take its place."""
    try:
        old = read_json(path)
        return new["images"] < old["images"] or not new.keys() >= old.keys()
    except (UserError, KeyError, TypeError):
        return False


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def blank(value: float) -> float | str:
    """A number for a table; nothing for NaN."""
    return "" if math.isnan(value) else value


def with_error(score: Score) -> str:
    """`value ± standard error` over images; of what has none, such as FID, over seeds.  In brackets, the range of judges.

    >>> with_error(Score(0.12345, 0.0034, 100))
    '0.1235 ± 0.0034'
    """
    error = score.over_seeds if math.isnan(score.standard_error) else score.standard_error
    return short(score.value) + ("" if math.isnan(error) else f" ± {error:.2g}") + spread_of(score)


def with_spread(score: Score) -> str:
    """The value, and in brackets the lowest and the highest judge where there are several.

    >>> with_spread(Score(0.95, 0.01, 100, judges=(0.9, 1.0)))
    '0.9500 (0.9000 to 1.000)'
    """
    return short(score.value) + spread_of(score)


def spread_of(score: Score) -> str:
    return f" ({short(score.lowest)} to {short(score.highest)})" if len(score.judges) > 1 else ""
