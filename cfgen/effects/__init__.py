"""The effect of an intervention on a classifier's answers: from real images, from a model, from both and from true pairs."""

from cfgen.effects.adjustment import Adjustment, adjustment_for, features
from cfgen.effects.effect import Effect, SampleAnswers, estimate_effect
from cfgen.effects.estimate import CONFIDENCE, Array, Estimate, combine, difference, pool_models, scaled
from cfgen.effects.generator import OutsidePairAnswers, by_generator, by_outside_pairs, by_pairs, frechet_bounds
from cfgen.effects.outcome import OneOfClasses, Outcome, Value, YesNo
from cfgen.effects.real_images import ENOUGH, RealImages
from cfgen.effects.sample import Comparison, Sample, real_images
from cfgen.effects.strength import Strength

__all__ = [
    "CONFIDENCE",
    "ENOUGH",
    "Adjustment",
    "Array",
    "Comparison",
    "Effect",
    "Estimate",
    "OneOfClasses",
    "Outcome",
    "OutsidePairAnswers",
    "RealImages",
    "Sample",
    "SampleAnswers",
    "Strength",
    "Value",
    "YesNo",
    "adjustment_for",
    "by_generator",
    "by_outside_pairs",
    "by_pairs",
    "combine",
    "difference",
    "estimate_effect",
    "features",
    "frechet_bounds",
    "pool_models",
    "real_images",
    "scaled",
]
