"""The effect of an intervention on a classifier's answers: what the model says, what real images say, and both together."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from cfgen.audit.strength import Strength
from cfgen.audit.unit import POINTS, Unit
from cfgen.audit.verdict import Verdict
from cfgen.effects import Estimate, difference, frechet_bounds

__all__ = ["Effect"]

THRESHOLD = 0.05  # the bias that the paper calls significant


@dataclass(frozen=True)
class Effect:
    """What is known of the effect of an intervention on the share of yes (or on the mean of predicted values), in one cohort.

    `generator` is the model's word (Eq. 5), `real` what real images alone say, `pairs` what true pairs say, and `combined` all
    of that together; the last three are None where they cannot say (`problem`).  `have` images have what the intervention asks
    for already, which are worth `effective` comparable ones.  It is `about` a share of the images that would change, below 1
    where the others are unlike all that have it; `truth` is the true effect on these, where it is known.  `kind` is "total", or
    "direct" where `held` attributes keep their values.  `positive` is the share of yes (or the mean) before.
    """

    kind: str
    held: list[str]
    changed: int
    about: float
    truth: float | None
    have: int
    effective: float
    clipped: float
    adjusted: list[str]
    window: dict[str, float]
    positive: float
    generator: Estimate
    generators: list[Estimate] = field(repr=False)
    real: Estimate | None
    pairs: Estimate | None
    pair_count: int
    combined: Estimate | None
    strength: Strength | None
    problem: str
    verdict: Verdict
    unit: Unit = POINTS

    @property
    def headline(self) -> Estimate:
        """The combined estimate; where there is none, the model's word."""
        return self.generator if self.combined is None else self.combined

    @property
    def significant(self) -> str:
        """ "5%" where the whole interval lies beyond 5 points, "0" where it excludes no difference, else "no"."""
        low, high = self.headline.interval
        beyond = self.unit is POINTS and (low > THRESHOLD or high < -THRESHOLD)
        return "5%" if beyond else "0" if low > 0 or high < 0 else "no"

    @property
    def gap(self) -> Estimate | None:
        """The model's estimate minus that of real images (or pairs, where these cannot say)."""
        checked = self.real if self.real is not None else self.pairs
        return None if checked is None else difference(self.generator, checked)

    @property
    def bounds(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """How many answers may flip to yes and to no (Fréchet), whatever share of yes the interval allows afterwards."""
        if self.unit is not POINTS:  # a value does not flip
            return (math.nan, math.nan), (math.nan, math.nan)
        (up_least, _), (_, down_most) = frechet_bounds(self.positive, self.headline.low)
        (_, up_most), (down_least, _) = frechet_bounds(self.positive, self.headline.high)
        return (up_least, up_most), (down_least, down_most)

    def record(self) -> dict[str, Any]:
        """As bias.csv has it."""
        (up_low, up_high), (down_low, down_high) = self.bounds
        plain: dict[str, Any] = {"verdict": self.verdict.code, "effect": self.kind, "significant": self.significant}
        for name in ("combined", "real", "pairs", "gap"):
            estimate: Estimate | None = getattr(self, name)
            ends = (math.nan, math.nan, math.nan) if estimate is None else (estimate.value, *estimate.interval)
            plain |= dict(zip((name, f"{name}/low", f"{name}/high"), ends, strict=True))
        plain |= {
            "share_compared": self.about,
            "have": self.have,
            "effective": self.effective,
            "pair_count": self.pair_count,
        }
        drawn = self.strength
        for end in ("value", "low", "high"):
            plain[f"strength/{end}"] = math.nan if drawn is None else getattr(drawn, end)
        return plain | {"up/least": up_low, "up/most": up_high, "down/least": down_low, "down/most": down_high}

    def to_dict(self) -> dict[str, Any]:
        """As audit.json has it."""
        estimates = {
            name: None if estimate is None else estimate.to_dict()
            for name, estimate in (
                ("combined", self.combined), ("generator", self.generator), ("real", self.real), ("pairs", self.pairs),
                ("gap", self.gap),
            )
        }  # fmt: skip
        return {
            "verdict": self.verdict.to_dict(),
            "effect": self.kind,
            "held": self.held,
            "significant": self.significant,
            **estimates,
            "models": [estimate.to_dict() for estimate in self.generators],
            "images": {
                "changed": self.changed,
                "share_compared": self.about,
                "have": self.have,
                "effective": self.effective,
                "clipped": self.clipped,
            },
            "adjusted_for": self.adjusted,
            "window": self.window,
            "pairs_used": self.pair_count,
            "strength": None if self.strength is None else self.strength.to_dict(),
            "flips_possible": dict(zip(("to_yes", "to_no"), map(list, self.bounds), strict=True)),
            "problem": self.problem,
        }
