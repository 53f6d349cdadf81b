"""Bias of a binary classifier under every binary attribute (Eq. 4 and 5), by the audit's own computing."""

from __future__ import annotations

import torch
from torch import Tensor

from cfgen.attributes import Binary, Schema
from cfgen.audit.classifiers.external import ExternalClassifier
from cfgen.audit.command import quiet_trainer
from cfgen.audit.results import EVERYONE, Findings, findings
from cfgen.audit.run import Audit, Images, Plan, Scores
from cfgen.errors import UserError
from cfgen.evaluation.subject import Subject
from cfgen.progress import progress
from lightning_modules import Classifier

__all__ = ["audit_findings", "audited", "bias_values", "require_binary"]

YES = 0.5  # the probability above which the answer is yes


def require_binary(schema: Schema) -> list[str]:
    """The binary attributes, of which there has to be one."""
    binary = [name for name, attribute in schema.attributes.items() if isinstance(attribute, Binary)]
    if not binary:
        raise UserError(
            f"--classifier answers yes or no, which is asked under binary attributes; the run has {', '.join(schema.names)}"
        )
    return binary


def audited(subject: Subject, judge: Classifier, seed: int) -> Audit:
    """All images and their counterfactuals under do(k = 1) and do(k = 0), every binary k, put to the classifier.

    An image counts under the one that changes it.
    """
    binary = require_binary(subject.model.schema)
    wanted = {f"{name}={value}": {name: value} for name in binary for value in (1, 0)}
    changing = {text: do for text, do in wanted.items() for k, v in do.items() if (subject.columns[k] != v).any()}
    plan = Plan(changing, binary, explain_images=len(subject.x), seed=seed)
    device = subject.model.schema.low.device
    images = Images(subject.x, subject.columns, subject.split)
    devices = "1" if device.type == "cpu" else f"{device.index or 0},"
    with progress("the classifier's answers", len(subject.x)) as advance:
        audit = Audit(subject.model.module, ExternalClassifier(judge), images, plan, advance)
        quiet_trainer(device.type, devices).predict(audit, return_predictions=False)
    subject.model.module.to(device)  # which the trainer has left
    return audit


def bias_values(scores: Scores, plan: Plan) -> dict[str, Tensor]:
    """`bias/do(k=v)`: 1 where the answer turns to yes from x_r to x_c, -1 where it turns to no, else 0; the mean is the bias.

    NaN where an image has the value already.
    """
    before = (scores["base"] > YES).float()
    values = {}
    for name in plan.do:
        after = scores[f"do/{name}"]
        values[f"bias/do({name})"] = ((after > YES).float() - before).where(~after.isnan(), torch.nan)
    return values


def audit_findings(audit: Audit) -> Findings:
    """The audit's own findings, without intervals of the bias: how many answers change, and every importance (Eq. 6)."""
    everyone = {EVERYONE: torch.ones(len(audit.images.x), dtype=torch.bool)}
    return findings(audit.scores, audit.images.columns, audit.plan, everyone, YES, resamples=0)
