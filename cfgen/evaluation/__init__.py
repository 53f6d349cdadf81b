"""What `cfgen evaluate` scores a model by, one file a metric.

Each metric takes a model, images and their attributes, and yields, a batch at a time, a value for each image by name.
"""

from cfgen.evaluation.commutativity import commutativity
from cfgen.evaluation.cycles import cycles
from cfgen.evaluation.label_accuracy import label_accuracy
from cfgen.evaluation.measured import measured
from cfgen.evaluation.minimality import minimality
from cfgen.evaluation.predicted import predicted
from cfgen.evaluation.reversibility import reversibility
from cfgen.evaluation.scores import Score, Scores
from cfgen.evaluation.truth import true_counterfactual_errors

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
