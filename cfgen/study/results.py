"""The results of a study: shares of right answers with intervals, and what they say about each question."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from cfgen.study.design import Study
from cfgen.study.statistics import chance_test, clustered_interval, equivalence_test, exact_test, share, wilson

__all__ = ["Answered", "Result", "ShareOf"]

Answered = list[tuple[Any, bool]]  # the main trials of a participant, and whether they were answered rightly


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

    @classmethod
    def of_those_asked(cls, right: Sequence[int], asked: Sequence[int], level: float) -> ShareOf:
        """Of the counts of each participant, without those who were not asked."""
        kept = [(k, n) for k, n in zip(right, asked, strict=True) if n]
        return cls.of([k for k, _ in kept], [n for _, n in kept], level)


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
                    called[kind] = ShareOf.of_those_asked(yes, [len(one) for one in answers], rules.level)
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
