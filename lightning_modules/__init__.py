"""LightningModules: the paper's models as image mechanisms, its classifiers, and a reader of attributes that judges."""

from lightning_modules.attribute_reader import AttributeReader
from lightning_modules.cf_classifier import CFClassifier
from lightning_modules.classifier import Classifier
from lightning_modules.cond_ali import CondALI
from lightning_modules.cyclic_encoder import CyclicEncoder
from lightning_modules.deep_scm import DeepSCM
from lightning_modules.image_mechanism import ImageMechanismModule
from lightning_modules.residual_kept import ResidualKept
from lightning_modules.style_ali import StyleALI

__all__ = [
    "AttributeReader",
    "CFClassifier",
    "Classifier",
    "CondALI",
    "CyclicEncoder",
    "DeepSCM",
    "ImageMechanismModule",
    "ResidualKept",
    "StyleALI",
]
