"""What `cfgen evaluate` scores a model by, one file a metric: each takes a model, images and their attributes."""

from cfgen.evaluation.cycles import cycles
from cfgen.evaluation.label_accuracy import label_accuracy
from cfgen.evaluation.truth import true_counterfactual_errors

__all__ = ["cycles", "label_accuracy", "true_counterfactual_errors"]
