"""Identity: whether a counterfactual of a face is still that person, by a network that recognises faces."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from cfgen.contracts import KnowsPersons
from cfgen.counterfactual import Swept, as_unit_float
from cfgen.errors import UserError, blame
from cfgen.evaluation.judges import Judges
from cfgen.evaluation.metrics.base import Cell, Description, Metric, Missing, Values
from cfgen.evaluation.statistics import Score
from cfgen.evaluation.subject import Subject
from cfgen.metrics.asked import do_name

__all__ = ["Identity", "partners", "separating_distance", "two_of_each"]

RECONSTRUCTION, ONE_PERSON, TWO_PERSONS = "reconstruction", "one_person", "two_persons"
PERSONS = 200  # of the validation split, at most, whose photographs say which distance separates
AT_ONCE = 50  # their photographs


class Identity(Metric):
    """For each image, with d the Euclidean distance between what the network makes of two faces:

    `identity_NETWORK/do(k)`: d(x, x_c) under do(k = the value asked), and `identity_NETWORK/reconstruction`: d(x, x_r);
    `identity_NETWORK/one_person`: d(x, x') of the next photograph x' of the same person in the split, and
    `identity_NETWORK/two_persons`: of the next one of somebody else; NaN where none follows;
    `identity_NETWORK/same/...`: 1 where d is below the threshold, so that the two count as one person, and else 0.

    `identity_NETWORK/threshold` is the distance that best separates photographs of one person from those of two in the
    validation split, at the model's size: small images are told apart less well than large ones.  An image left as it is has
    the distance 0, so this says nothing without effectiveness.
    """

    name = "identity"
    title = "Identity: distance between faces, and share taken for the same person"
    unit = "distance between faces"
    place = 85

    def __init__(self, subject: Subject, judges: Judges, values: int = 1) -> None:
        super().__init__(subject, judges, values)
        assert judges.identity is not None
        self.network, self.prefix = judges.identity, f"identity_{judges.identity.name}"
        self.photographs = self.data.images(subject.split)
        one, two = partners(self.data.persons(subject.split))
        self.partners = {ONE_PERSON: one, TWO_PERSONS: two}
        self.threshold, self.pairs = self.separated()

    @classmethod
    def missing(cls, subject: Subject, judges: Judges) -> Missing | None:
        if judges.identity is None:
            return Missing("identity", "a network that recognises faces, dlib")
        require_persons(subject)
        return None

    def separated(self) -> tuple[float, int]:
        """The threshold, and from how many pairs of validation photographs it is."""
        pairs = two_of_each(self.data.persons("val"))[:PERSONS]
        images = self.data.images("val")
        first, second = (
            torch.cat([self.faces(as_unit_float(images[rows])) for rows in column.split(AT_ONCE)])
            for column in pairs.unbind(dim=1)
        )
        # each person's first photograph beside the second of the person before
        one, two = apart(first, second), apart(first, second.roll(1, dims=0))
        return separating_distance(one, two), len(one) + len(two)

    def faces(self, x: Tensor) -> Tensor:
        return self.network(x, self.data.eyes)

    @classmethod
    def uses(cls, judges: Judges) -> set[str]:
        return {"identity"}

    def descriptions(self) -> dict[str, Description]:
        table = f"Identity ({self.network.name}: distance between faces; the same person below {self.threshold:.3f})"
        rows = {RECONSTRUCTION: None} | {do_name(k): k for k in self.schema.names}
        baselines = {ONE_PERSON: "two photographs of one person", TWO_PERSONS: "photographs of two persons"}
        found = {}
        for kind in (*rows, *baselines):
            merit, row = int(kind in rows), baselines.get(kind, kind)
            what = {"attribute": rows.get(kind), "baseline": not merit}
            found[self.score(kind)] = self.describe(direction=-merit, cell=Cell(table, row, "distance"), **what)
            found[self.score(kind, same=True)] = self.describe(
                unit="share of pairs", direction=merit, cell=Cell(table, row, "same person"), **what
            )
        return found | {self.score("threshold"): self.describe(baseline=True, cell=None, width=0)}

    def score(self, kind: str, same: bool = False) -> str:
        return f"{self.prefix}/same/{kind}" if same else f"{self.prefix}/{kind}"

    def interventions(self) -> dict[str, Mapping[str, Tensor]]:
        return self.do_each(self.schema.names)

    def update(self, batch: Swept) -> Values:
        here = self.faces(batch.x)
        distances = {RECONSTRUCTION: apart(here, self.faces(batch.x_r))}
        distances |= {do: apart(here, self.faces(batch.x_c(do))) for do in map(do_name, self.schema.names)}
        for kind, follows in self.partners.items():
            rows = follows[batch.rows]
            has = rows >= 0
            distances[kind] = torch.full((len(rows),), torch.nan)
            distances[kind][has] = apart(here[has], self.faces(as_unit_float(self.photographs[rows[has]])))
        found: Values = {}
        for kind, distance in distances.items():
            same = (distance < self.threshold).float().where(~distance.isnan(), torch.nan)
            found |= {self.score(kind): distance, self.score(kind, same=True): same}
        return found

    def finish(self, share: tuple[int, int]) -> dict[str, Score]:
        return {self.score("threshold"): Score(self.threshold, math.nan, self.pairs)}


def apart(one: Tensor, other: Tensor) -> Tensor:
    return (one - other).norm(dim=1)


def partners(persons: Tensor) -> tuple[Tensor, Tensor]:
    """The row of the next photograph of the same person, and of the next one of somebody else; -1 where none follows.

    The next one, and not any other: so no pair counts twice.

    >>> partners(torch.tensor([7, 8, 8, 7]))
    (tensor([ 3,  2, -1, -1]), tensor([ 1,  3,  3, -1]))
    """
    numbers = persons.tolist()
    same, other = [-1] * len(numbers), [-1] * len(numbers)
    seen: dict[int, int] = {}
    for row in reversed(range(len(numbers))):
        same[row] = seen.get(numbers[row], -1)
        if row + 1 < len(numbers):
            other[row] = row + 1 if numbers[row + 1] != numbers[row] else other[row + 1]
        seen[numbers[row]] = row
    return torch.tensor(same), torch.tensor(other)


def two_of_each(persons: Tensor) -> Tensor:
    """The rows of the first two photographs of every person who has two, (persons, 2).

    >>> two_of_each(torch.tensor([7, 8, 8, 9, 7, 8]))
    tensor([[0, 4],
            [1, 2]])
    """
    rows: dict[int, list[int]] = {}
    for row, person in enumerate(persons.tolist()):
        rows.setdefault(person, []).append(row)
    return torch.tensor([found[:2] for found in rows.values() if len(found) > 1], dtype=torch.long).reshape(-1, 2)


def separating_distance(one: Tensor, two: Tensor) -> float:
    """The threshold at which the mean of two shares is largest: of pairs of `one` person below, of `two` persons not below.

    Halfway between two distances; the middle one where several are as good.

    >>> round(separating_distance(torch.tensor([0.2, 0.4]), torch.tensor([0.6, 0.9])), 3)
    0.5
    """
    ordered = torch.cat([one, two]).sort().values
    middles = (ordered[1:] + ordered[:-1]) / 2
    right = (one < middles[:, None]).float().mean(dim=1) + (two >= middles[:, None]).float().mean(dim=1)
    best = middles[right == right.max()]
    return best[len(best) // 2].item()


def require_persons(subject: Subject) -> None:
    """Refuses data that does not know who is who, or too few of whom there are several photographs."""
    data = subject.data
    if not isinstance(data, KnowsPersons):
        raise UserError(
            f"it compares photographs of persons, and {type(data).__name__} does not say who is who, as CelebA does",
            argument="identity",
        )
    with blame("identity"):
        data.persons(subject.split)
        known = len(two_of_each(data.persons("val")))
    if known < 2:
        raise UserError(
            f"it needs two validation photographs each of two persons or more, and {known} have them",
            argument="identity",
        )
