"""What answers say: the score as the paper reports it, shares with intervals, tests against chance, and of equivalence."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfgen.errors import UserError
from cfgen.reporting.files import new_results, png, table
from cfgen.study.answers import Sittings, participants_of, read_lines
from cfgen.study.design import Study
from cfgen.study.results import Answered, Result, ShareOf
from cfgen.study.simulation import simulated_lines
from cfgen.study.statistics import Power, power

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Analysis", "Result", "ShareOf", "analyse"]

SPREADS = (0.0, 0.1)  # standard deviations of participants' own shares that power is given for


@dataclass(frozen=True)
class Analysis:
    """Results of each question, over participants that count; who does not count, and why."""

    study: Study
    results: list[Result]
    interventions: list[dict[str, Any]]
    participants: list[dict[str, Any]]
    excluded: dict[str, int]
    duplicates: int
    unreadable: list[str]
    power: list[Power]
    simulated: dict[str, int] | None

    def to_dict(self) -> dict[str, Any]:
        found = {
            "study": self.study.hash,
            "model": self.study.model,
            "rules": dataclasses.asdict(self.study.rules),
            "simulated": self.simulated,
            "results": [dataclasses.asdict(result) for result in self.results],
            "interventions": self.interventions,
            "participants": {"all": len(self.participants), "excluded": self.excluded},
            "duplicate_lines": self.duplicates,
            "unreadable_lines": self.unreadable,
            "power": [one._asdict() for one in self.power],
        }
        return _plain(found)

    def to_frame(self) -> pd.DataFrame:
        """A row for each question."""
        import pandas as pd

        return pd.DataFrame(result_rows(self.results))

    def save(self, folder: str | Path | None = None, root: str | Path = ".") -> Path:
        """Writes a new folder, or else the next free `root/analyses/NNN`: analysis.json, CSV files and the figure."""
        from cfgen.study.figures import scores_figure

        with new_results(Path(root), "analyses", folder) as new:
            new.write({
                "analysis.json": json.dumps(self.to_dict(), indent=1) + "\n",
                "results.csv": table(result_rows(self.results)),
                "interventions.csv": table(self.interventions),
                "participants.csv": table(self.participants),
            })  # fmt: skip
            if self.results:
                margin, simulated = self.study.rules.margin, self.simulated is not None
                figure = scores_figure(self.results, self.interventions, margin, simulated)
                new.write({"scores.png": png(figure)})
        return new.path


def analyse(
    folder: str | Path,
    answers: Sequence[str | Path] = (),
    *,
    simulate: Mapping[str, int] | None = None,
    planned: int | None = None,
    seed: int = 0,
) -> Analysis:
    """Analyses what the app kept in a study's folder together with further files or folders of answers.

    Args:
        folder: what `cfgen study new` wrote.  One that was changed since is refused.
        answers: files that participants sent, or folders of such.
        simulate: analyse simulated participants instead, so many of each kind: guessing, perfect, careless.
        planned: also compute the power of a study with so many participants that count.
        seed: of simulations.
    """
    study = Study.read(folder)
    if simulate is not None and answers:
        raise UserError("answers are analysed, or simulated ones; not both", argument="simulate")
    if planned is not None and planned < 2:
        raise UserError(f"expected 2 participants or more, not {planned}", argument="power")
    simulated = None if simulate is None else simulated_lines(study, simulate, seed)
    sittings = participants_of(study, read_lines(Path(folder), answers) if simulated is None else simulated)
    if not sittings.participants and planned is None:
        raise UserError(
            "there are no answers yet; simulated participants show what an analysis looks like",
            argument="answers",
        )
    rules = study.rules
    powers = []
    if planned is not None:
        powers = [power(planned, study.each, rules.margin, rules.level, spread, seed) for spread in SPREADS]
    return found(study, sittings, powers, simulate)


def found(study: Study, sittings: Sittings, powers: list[Power], simulate: Mapping[str, int] | None) -> Analysis:
    """Applies the rules, and computes what is left."""
    rows, counted = [], []
    for person in sittings.participants:
        reason = person.excluded(study)
        main = [(trial, right) for trial, right, _ in person.answers(study) if trial.role == "main"]
        row: dict[str, Any] = {"participant": person.id, "counts": int(not reason), "excluded": reason}
        row |= {question: sum(right for t, right in main if t.question == question) for question in study.questions}
        rows.append(row)
        if not reason:
            counted.append(main)
    return Analysis(
        study=study,
        results=[Result.of(study, question, counted) for question in study.questions] if counted else [],
        interventions=intervention_rows(study, counted),
        participants=rows,
        excluded=dict(Counter(row["excluded"] for row in rows if row["excluded"])),
        duplicates=sittings.duplicates,
        unreadable=sittings.unreadable,
        power=powers,
        simulated=None if simulate is None else dict(simulate),
    )


def intervention_rows(study: Study, counted: Sequence[Answered]) -> list[dict[str, Any]]:
    """The share of right answers by question and intervention; intervals without tests, for there are many of them."""
    rows = []
    for question in study.questions:
        names = dict.fromkeys(
            trial.do for trial in study.trials if (trial.role, trial.question) == ("main", question)
        )  # fmt: skip
        for name in sorted(names):
            answers = [[right for t, right in one if (t.question, t.do) == (question, name)] for one in counted]
            if any(answers):
                correct = ShareOf.of_those_asked(
                    [sum(one) for one in answers], [len(one) for one in answers], study.rules.level
                )
                rows.append({"question": question, "do": name, **_flat(correct)})
    return rows


def result_rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    names = ("question", "each", "mean", "deviation", "exact_p", "clustered_p", "equivalence_p", "verdict")
    return [{**{name: getattr(result, name) for name in names}, **_flat(result.correct)} for result in results]


def _flat(one: ShareOf) -> dict[str, Any]:
    counts = {"right": one.right, "asked": one.asked, "participants": one.participants, "share": one.share}
    low, high = one.clustered
    return counts | {"wilson_low": one.wilson[0], "wilson_high": one.wilson[1], "low": low, "high": high}


def _plain(value: Any) -> Any:
    """What is not known is null in JSON, which has no NaN."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and math.isnan(value) else value
