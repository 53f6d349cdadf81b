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

import numpy as np
from scipy import stats

from cfgen.errors import UserError
from cfgen.reporting.files import new_results, png, table
from cfgen.study.answers import Sittings, participants_of, read_lines
from cfgen.study.design import Study
from cfgen.study.simulation import simulated_lines
from cfgen.study.statistics import (
    Power,
    chance_test,
    clustered_interval,
    equivalence_test,
    exact_test,
    power,
    share,
    wilson,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Analysis", "Result", "ShareOf", "analyse"]

SPREADS = (0.0, 0.1)  # standard deviations of participants' own shares that power is given for


@dataclass(frozen=True)
class ShareOf:
    """A share of answers, with Wilson's interval as if all were independent, and with participants as clusters."""

    right: int
    asked: int
    participants: int
    share: float
    wilson: tuple[float, float]
    clustered: tuple[float, float]

    @classmethod
    def of(cls, right: Sequence[int], asked: Sequence[int], level: float) -> ShareOf:
        """Of the counts of each participant."""
        k, n = sum(right), sum(asked)
        low, high = wilson(k, n, stats.norm.ppf(1 - level / 2))
        between = clustered_interval(right, asked, 1 - level)
        return cls(k, n, len(right), k / n, (float(low), float(high)), (float(between[0]), float(between[1])))


@dataclass(frozen=True)
class Result:
    """One question.  `mean` and `deviation` are of the scores, the number of right answers of a participant out of `each`."""

    question: str
    each: int
    scores: list[int]
    mean: float
    deviation: float
    correct: ShareOf
    exact_p: float
    clustered_p: float
    equivalence_p: float
    verdict: str
    called_same: dict[str, ShareOf]  # of the question `same`: how often people said yes, by what was shown

    @classmethod
    def of(cls, study: Study, question: str, people: Sequence[Answered]) -> Result:
        rules, each = study.rules, study.each
        scores = [sum(right for trial, right in one if trial.question == question) for one in people]
        asked = [each] * len(scores)
        exact, clustered = exact_test(sum(scores), sum(asked)), float(chance_test(scores, asked))
        equivalent = float(equivalence_test(scores, asked, rules.margin))
        above = float(share(scores, asked)) > 0.5
        called = {}
        if question == "same":
            for kind, shown in (("one", 0), ("two", 1)):
                answers = [[right for t, right in one if t.question == "same" and t.right == shown] for one in people]
                yes = [sum(right == (shown == 0) for right in one) for one in answers]
                if any(answers):
                    called[kind] = _share_of(yes, [len(one) for one in answers], rules.level)
        return cls(
            question=question,
            each=each,
            scores=scores,
            mean=float(np.mean(scores)),
            deviation=float(np.std(scores, ddof=1)) if len(scores) > 1 else math.nan,
            correct=ShareOf.of(scores, asked, rules.level),
            exact_p=exact,
            clustered_p=clustered,
            equivalence_p=equivalent,
            verdict=verdict(clustered < rules.level, above, equivalent < rules.level),
            called_same=called,
        )


def verdict(differs: bool, above: bool, equivalent: bool) -> str:
    """What the two tests say together; a large p-value of the first alone does not show that people guess."""
    if differs and equivalent:
        return "differs from guessing, but by less than the margin"
    if differs:
        return "better than guessing" if above else "worse than guessing"
    return "as good as guessing, within the margin" if equivalent else "undecided: more participants are needed"


Answered = list[tuple[Any, bool]]  # the main trials of a participant, and whether they were answered rightly


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
                new.write({"scores.png": png(scores_figure(self))})
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
                correct = _share_of([sum(one) for one in answers], [len(one) for one in answers], study.rules.level)
                rows.append({"question": question, "do": name, **_flat(correct)})
    return rows


def result_rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    names = ("question", "each", "mean", "deviation", "exact_p", "clustered_p", "equivalence_p", "verdict")
    return [{**{name: getattr(result, name) for name in names}, **_flat(result.correct)} for result in results]


def _share_of(right: Sequence[int], asked: Sequence[int], level: float) -> ShareOf:
    """Of those participants who were asked at all."""
    kept = [(k, n) for k, n in zip(right, asked, strict=True) if n]
    return ShareOf.of([k for k, _ in kept], [n for _, n in kept], level)


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
