"""LightningModules: the paper's models as image mechanisms, and its classifiers."""

from lightning_modules.classifier import Classifier
from lightning_modules.cond_ali import CondALI
from lightning_modules.deep_scm import DeepSCM
from lightning_modules.image_mechanism import ImageMechanismModule

__all__ = ["Classifier", "CondALI", "DeepSCM", "ImageMechanismModule"]
