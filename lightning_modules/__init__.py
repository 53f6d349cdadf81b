"""LightningModules: the paper's models as image mechanisms, and its classifiers."""

from lightning_modules.cf_classifier import CFClassifier
from lightning_modules.classifier import Classifier
from lightning_modules.cond_ali import CondALI
from lightning_modules.cyclic_encoder import CyclicEncoder
from lightning_modules.deep_scm import DeepSCM
from lightning_modules.image_mechanism import ImageMechanismModule
from lightning_modules.style_ali import StyleALI

__all__ = ["CFClassifier", "Classifier", "CondALI", "CyclicEncoder", "DeepSCM", "ImageMechanismModule", "StyleALI"]
