"""Bias of a binary classifier under every binary attribute (Eq. 4 and 5), its answers (Fig. 6) and what they go by (Fig. 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from cfgen.attributes import Schema
from cfgen.counterfactual import Swept
from cfgen.errors import UserError
from cfgen.evaluation.judges import Judges
from cfgen.evaluation.metrics.base import Again, Cell, Description, Metric, Missing, Values, binary_names
from cfgen.evaluation.subject import Subject
from cfgen.figures.answers import ScatterPanel, attribute_ranking, fairness_scatter
from cfgen.interventions import Toggle
from cfgen.metrics.asked import do_name
from cfgen.metrics.importance import importances

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ClassifierBias"]

YES = 0.5  # the probability above which the answer is yes
PANELS = 6  # of the fairness scatter


class ClassifierBias(Metric):
    """`bias/do(k=v)`: 1 where the answer turns to yes from x_r to x_c, -1 where it turns to no, else 0; the mean is the bias.

    NaN where an image has the value already: under do(k = the other value), an image counts for the value that it gets.
    """

    name = "bias"
    title = "Bias of the classifier: a property of it as much as of the model"
    unit = "share of the answers"
    place = 90

    def __init__(self, subject: Subject, judges: Judges, values: int = 1) -> None:
        super().__init__(subject, judges, values)
        assert judges.classifier is not None
        self.classifier = judges.classifier
        self.names = binary_names(self.schema)
        own = subject.columns
        self.changes = [(k, value) for k in self.names for value in (1, 0) if (own[k] != value).any()]

    @classmethod
    def missing(cls, subject: Subject, judges: Judges) -> Missing | None:
        if judges.classifier is None or judges.classifier.classes != 2:
            return Missing("classifier", "a classifier of yes or no")
        require_binary(subject.mechanism.scm.schema)
        return None

    @classmethod
    def uses(cls, judges: Judges) -> set[str]:
        return {"classifier"}

    def descriptions(self) -> dict[str, Description]:
        return {
            f"bias/do({k}={value})": self.describe(
                attribute=f"{k}={value}", cell=Cell("Bias of the classifier", k, f"do(it = {value})")
            )
            for k, value in self.changes
        }

    def extra_columns(self) -> dict[str, int]:
        return {"base": 1} | {f"flip/{k}": 1 for k in self.names}

    def interventions(self) -> dict[str, Mapping[str, Tensor]]:
        return self.do_each(self.names)

    def update(self, batch: Swept) -> Values:
        probabilities = {"base": self.classifier(batch.x_r).sigmoid()}
        probabilities |= {f"flip/{k}": self.classifier(batch.x_c(do_name(k))).sigmoid() for k in self.names}
        answers = {name: (values > YES).float() for name, values in probabilities.items()}
        found: Values = dict(probabilities)
        for k, value in self.changes:
            turned = answers[f"flip/{k}"] - answers["base"]
            found[f"bias/do({k}={value})"] = turned.where(self.gets(k, value, batch.rows).to(turned.device), torch.nan)
        return found

    def gets(self, k: str, value: int, rows: Tensor | slice = slice(None)) -> Tensor:
        """Which images get that value when they are asked for the other than their own."""
        return self.subject.columns[k][rows] != value

    def figures(self, values: Mapping[str, Tensor], again: Again) -> dict[str, Figure]:
        """The answers before and after the interventions that turn most of them (Fig. 6); attributes ranked (Fig. 7)."""
        p = {name: values[name].double().cpu().numpy() for name in self.extra_columns()}
        turned = {
            (k, value): values[f"bias/do({k}={value})"][self.gets(k, value)].abs().mean().item()
            for k, value in self.changes
        }
        panels = []
        for k, value in sorted(turned, key=lambda change: -turned[change])[:PANELS]:
            after = np.where(self.gets(k, value).cpu().numpy(), p[f"flip/{k}"], np.nan)
            panels.append(ScatterPanel(f"do({k}={value})", p["base"], after, p["base"] > YES, after > YES))
        columns = self.subject.columns
        toggles = Toggle.lines(self.schema, columns, self.names, torch.arange(len(p["base"])))
        lines = [(one, one.raises(columns).cpu().numpy(), p[f"flip/{one.attribute}"]) for one in toggles]
        return {
            "fairness_scatter": fairness_scatter(panels, YES, self.judges.label),
            "attribute_ranking": attribute_ranking(importances(p["base"], lines), label=self.judges.label),
        }


def require_binary(schema: Schema) -> None:
    """Refuses a model without binary attributes."""
    if not binary_names(schema):
        raise UserError(
            "it answers yes or no, and its bias is measured under binary attributes; this model has "
            f"{', '.join(schema.names)}",
            argument="classifier",
        )
