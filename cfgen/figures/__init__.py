"""The paper's figures, one function each."""

from cfgen.figures.grid import image_grid
from cfgen.figures.mechanism import (
    ablation_rows,
    counterfactual_grid,
    counterfactual_rows,
    interpolations,
    misclassified_labels,
    reconstructions,
    target_against_measured,
)

__all__ = [
    "ablation_rows",
    "counterfactual_grid",
    "counterfactual_rows",
    "image_grid",
    "interpolations",
    "misclassified_labels",
    "reconstructions",
    "target_against_measured",
]
