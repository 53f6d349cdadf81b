"""The effect of an intervention on a classifier's answers: by real images, by a generator, by both and by true pairs."""

from cfgen.effects.adjustment import Adjustment, adjustment_for, features
from cfgen.effects.contrasted import ContrastedImages
from cfgen.effects.estimate import CONFIDENCE, Array, Estimate, combine, difference, pool_models, scaled
from cfgen.effects.exposure import exposure_of
from cfgen.effects.generator import by_generator, by_outside_pairs, by_pairs, frechet_bounds
from cfgen.effects.nuisance import Mask
from cfgen.effects.real_images import ENOUGH, Exposure, RealImages
from cfgen.effects.shifted import ShiftedImages, shift_exposure

__all__ = [
    "CONFIDENCE",
    "ENOUGH",
    "Adjustment",
    "Array",
    "ContrastedImages",
    "Estimate",
    "Exposure",
    "Mask",
    "RealImages",
    "ShiftedImages",
    "adjustment_for",
    "by_generator",
    "by_outside_pairs",
    "by_pairs",
    "combine",
    "difference",
    "exposure_of",
    "features",
    "frechet_bounds",
    "pool_models",
    "scaled",
    "shift_exposure",
]
