"""LightningModules: the paper's models as image mechanisms, its classifiers, and a predictor of attributes that judges.

A module is imported when it is asked for: a command that needs one does not wait for the packages of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cfgen.lazy import lazy_names

if TYPE_CHECKING:
    from lightning_modules.cf_classifier import CFClassifier
    from lightning_modules.classifier import Classifier
    from lightning_modules.cond_ali import CondALI
    from lightning_modules.cyclic_encoder import CyclicEncoder
    from lightning_modules.deep_scm import DeepSCM
    from lightning_modules.hvae import HVAE
    from lightning_modules.image_mechanism import ImageMechanismModule
    from lightning_modules.own_network import OwnNetwork
    from lightning_modules.predictor import Predictor
    from lightning_modules.residual_kept import ResidualKept
    from lightning_modules.style_ali import StyleALI

__all__ = [
    "HVAE",
    "CFClassifier",
    "Classifier",
    "CondALI",
    "CyclicEncoder",
    "DeepSCM",
    "ImageMechanismModule",
    "OwnNetwork",
    "Predictor",
    "ResidualKept",
    "StyleALI",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "CFClassifier": "cf_classifier",
        "Classifier": "classifier",
        "CondALI": "cond_ali",
        "CyclicEncoder": "cyclic_encoder",
        "DeepSCM": "deep_scm",
        "HVAE": "hvae",
        "ImageMechanismModule": "image_mechanism",
        "OwnNetwork": "own_network",
        "Predictor": "predictor",
        "ResidualKept": "residual_kept",
        "StyleALI": "style_ali",
    },
    old={"AttributeReader": "Predictor"},
)
