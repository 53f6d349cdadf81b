"""What `cfgen evaluate` scores a model by, one file a metric.

Each metric takes a model, images and their attributes, and yields, a batch at a time, a value for each image by name.
"""

from cfgen.evaluation.metrics.commutativity import commutativity
from cfgen.evaluation.metrics.cycles import cycles
from cfgen.evaluation.metrics.label_accuracy import label_accuracy
from cfgen.evaluation.metrics.measured import measured
from cfgen.evaluation.metrics.minimality import minimality
from cfgen.evaluation.metrics.predicted import predicted
from cfgen.evaluation.metrics.reversibility import reversibility
from cfgen.evaluation.metrics.truth import true_counterfactual_errors
from cfgen.evaluation.statistics import Score, Scores

__all__ = [
    "Score",
    "Scores",
    "commutativity",
    "cycles",
    "label_accuracy",
    "measured",
    "minimality",
    "predicted",
    "reversibility",
    "true_counterfactual_errors",
]
