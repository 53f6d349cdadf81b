"""An audit's result with given effects, so that reports are tested without a model."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from cfgen.attributes import Schema
from cfgen.audit._classes import ClassFindings, FlipMatrix
from cfgen.audit._findings import BiasRow, ClassifierResult, compare_classifiers
from cfgen.audit._illustrate import FlipExamples, Pictures
from cfgen.audit._subgroups import SubgroupRow
from cfgen.audit._transformations import AFFINE
from cfgen.audit.answers import COUNTERFACTUAL, REAL, RECONSTRUCTION, TRANSFORMED, Answers, Picture, Readings
from cfgen.audit.questions import EVERYONE, AuditedClassifier, Group, Questions
from cfgen.audit.result import AuditResult
from cfgen.audit.verdict import Verdict
from cfgen.effects import Effect, Estimate, OneOfClasses, Value, YesNo
from cfgen.effects.strength import Strength
from cfgen.interventions import Set, Toggle
from cfgen.metrics import CounterfactualBias
from cfgen.metrics.importance import importances, local_scores
from cfgen.scm.graph import CausalGraph

PALE, OLD, THIN, THICK = "Black_Hair=1,Pale_Skin=1", "Young=0", "width=1", "width=2"
N = 100
COHORT = "Smiling=1"
NAMES = ["Young", "Gray_Hair", "Black_Hair", "Pale_Skin", "Smiling"]
SCHEMA = Schema({**{name: {"kind": "binary"} for name in NAMES}, "width": {"kind": "continuous", "low": 0, "high": 3}})
YOUNG = Toggle("toggle Young", "Young", "Young", "present")
MODEL = "model"
FACTS = {
    "data": {"split": "test", "images": N},
    "model": {"source": "faces-modulated", "graph": [("Young", "Gray_Hair")], "sha256": "0" * 64},
    "models": [],
    "model_scores": {"mse_x": 0.0123},
    "predictor": {"source": "given", "accuracy": {"Young": 0.9, "Black_Hair": 0.8}},
    "assumed": ["no intervention causes light, which is adjusted for"],
    "seed": 0,
}
PROVENANCE = {"command": "cfgen audit --model 'a run' --do Young=0", "options": {"count": N}, "seconds": 1.0}


def doing(*values):
    return tuple(Set.from_values(SCHEMA, one) for one in values)


PLAN = Questions(
    schema=SCHEMA,
    graph=CausalGraph([*NAMES, "width"], [("Young", "Gray_Hair")]),
    ids=[str(k) for k in range(N)],
    columns={**{name: torch.ones(N) for name in NAMES}, "width": torch.linspace(0, 3, N)},
    interventions=doing({"Black_Hair": 1, "Pale_Skin": 1}, {"Young": 0}),
    requests={},
    cohorts=(
        Group(EVERYONE, torch.ones(N, dtype=torch.bool)),
        Group(COHORT, torch.arange(N) % 2 == 0, ("Smiling",)),
    ),
    classifiers=(),
    models=(MODEL,),
    toggles=(YOUNG,),
    explained=torch.ones(N, dtype=torch.bool),
    local=(3,),
    facts=FACTS,
)
WITH_CURVE = replace(
    PLAN,
    interventions=PLAN.interventions + doing({"width": 1}, {"width": 2}),
    curves={"width": (THIN, THICK)},
)
ALONE = replace(PLAN, cohorts=PLAN.cohorts[:1])  # without a cohort


def probabilities():
    """100 base images, half yes.  Under PALE 20 flip to yes, 5 to no, and 10 do not change; age changes nothing."""
    base = np.where(np.arange(N) < 50, 0.8, 0.2)
    pale = base.copy()
    pale[50:70], pale[:5], pale[90:] = 0.9, 0.3, np.nan
    return base, {PALE: pale, OLD: base, THIN: base, THICK: 1 - base}


def answers(classes=()):
    """The tables of raw answers of one classifier, by picture; of classes, the first has what is left to 1."""

    def raw(p):
        column = p.astype(np.float32)[:, None]
        return np.hstack([1 - column, column]) if classes else column

    base, after = probabilities()
    tables = {Picture(REAL): raw(base), Picture(RECONSTRUCTION, model=MODEL): raw(base)}
    tables |= {Picture(TRANSFORMED, name): raw(base) for name in AFFINE}
    return tables | {Picture(COUNTERFACTUAL, name, "end", MODEL): raw(p) for name, p in after.items()}


def estimate(value, half=0.03):
    """An estimate with an interval of about this half width."""
    return Estimate(value, half / 1.9842 * np.sqrt(N) * np.array([1.0, -1.0] * (N // 2)), N)


class Judged(NamedTuple):
    effect: Effect
    verdict: Verdict
    strength: Strength | None


def judged(code="agrees", combined=0.25, model=0.2, held=(), half=0.03, strength=0.68, outcome=None, **more):
    """`combined` is None where there is only the model-only estimate."""
    together = None if combined is None else estimate(combined, half)
    effect = Effect(
        outcome=outcome or YesNo(),
        kind="direct" if held else "total",
        held=list(held),
        n_target=90,
        share_compared=1.0,
        n_with_value=60,
        effective_n=55.4,
        clipped=0.0,
        adjusted_for=["Smiling"],
        window={},
        base_mean=0.5,
        model_only=estimate(model, half),
        models=[estimate(model, half)],
        real=together,
        pairs=None,
        n_pairs=0,
        combined=together,
        truth=None,
        problem="",
        more_images_help=True,
    )
    seen = None if strength is None else Strength(strength, strength - 0.1, strength + 0.1, 0.66, 0.9, 0.1, True)
    verdict = Verdict(code, "Its reason.", "" if code == "agrees" else f"What to do about {code}.")
    return Judged(replace(effect, **more), verdict, seen)


def flips(before, after, members):
    metric = CounterfactualBias(resamples=100)
    counted = members & ~np.isnan(after)
    metric.update(*(torch.from_numpy(part[counted] > 0.5).long() for part in (before, after)))
    return {key: value.item() for key, value in metric.compute().items()}


def bias_rows(questions, found, truth):
    """`found` by cohort and intervention; `truth` is a true bias with the distances to it, by intervention."""
    base, after = probabilities()
    rows = []
    for cohort in questions.cohorts:
        for one in questions.interventions:
            numbers = flips(base, after[one.name], cohort.members.numpy())
            known = truth.get(one.name)
            rows.append(
                BiasRow(
                    cohort.name, one.name, numbers, 0.5, numbers["bias"],
                    *(({"bias": known[0]}, *known[1:]) if known else ()),
                    **found[cohort.name, one.name]._asdict(),
                )
            )  # fmt: skip
    everyone = np.ones(N, dtype=bool)
    return rows + [
        BiasRow(EVERYONE, name, flips(base, base, everyone), 0.5, 0.0, transformation=True) for name in AFFINE
    ]


def audited(
    name="runs/first", label="Attractive", questions=PLAN, effects=None, truth=None, outcome=None, class_name="", **more
):
    """The results of one classifier, or of one class."""
    outcome = outcome or YesNo()
    groups = [group.name for group in questions.cohorts]
    found = {(group, one.name): judged(outcome=outcome) for group in groups for one in questions.interventions}
    found |= effects or {}
    subgroups = [
        SubgroupRow(change, "Smiling", f"Smiling={value}", 45, one.effect.headline.value, -0.02, 0.31,
                    one.effect.combined is not None, one.verdict.code, 0.013)
        for (group, change), one in found.items() if group == EVERYONE for value in (0, 1)
    ]  # fmt: skip
    base = probabilities()[0]
    line = (YOUNG, np.zeros(N, dtype=bool), base - 0.1)
    error = {"mse_x": 0.01, "agreement": 1.0, "positive_real": 0.5, "positive_own": 0.5, "positive_base": 0.5}
    return ClassifierResult(
        name=name,
        classifier=more.pop("classifier", name),
        class_name=class_name,
        label=label,
        outcome=outcome,
        bias=bias_rows(questions, found, truth or {}),
        subgroups=subgroups,
        importance=importances(base, [line]),
        local=local_scores(base, [line], 3),
        model_error=more.pop("model_error", error),
        n_images=N,
        accuracy=0.9,
        **more,
    )


def result(*several, questions=PLAN, classes=(), **more):
    """The result for these classifiers; for one classifier by default."""
    several = list(several) or [audited(questions=questions)]
    names = dict.fromkeys(one.classifier for one in several)
    outcomes = {one.classifier: one.outcome for one in several}
    known = [AuditedClassifier(name, outcomes[name], "yes") for name in names]
    tables = {name: answers(outcomes[name].columns if len(outcomes[name].columns) > 1 else ()) for name in names}
    ids = questions.ids
    return AuditResult(
        questions=replace(questions, classifiers=tuple(known), **more),
        answers=Answers(ids, tables, {name: outcome.columns for name, outcome in outcomes.items()}),
        readings=Readings(ids, {}),
        classifiers=several,
        differences=compare_classifiers(several),
        classes=list(classes),
        provenance=PROVENANCE,
    )


def result_of_classes():
    """A classifier of two classes, both reported; only one is shown in detail."""
    outcome = OneOfClasses(("cat", "dog"))
    each = [
        audited(name, name, ALONE, {(EVERYONE, OLD): judged("weak", value, outcome=outcome)}, outcome=outcome,
                class_name=name, classifier="pets", detailed=name == "dog")
        for name, value in (("cat", -0.3), ("dog", 0.3))
    ]  # fmt: skip
    counts = {PALE: [[35, 20], [5, 30]], OLD: [[50, 0], [0, 50]]}
    matrices = [FlipMatrix(EVERYONE, change, outcome.classes, np.array(c)) for change, c in counts.items()]
    return result(
        *each, questions=ALONE, classes=[ClassFindings("pets", outcome.classes, matrices, (0.9, 0.8, 0.95), 0.03)]
    )


def result_of_values():
    """A network that predicts a value."""
    return result(audited(label="age", questions=ALONE, outcome=Value()), questions=ALONE)


def pictures(*names):
    """Two images whose answer PALE flips to yes, for each classifier, and the image that is explained."""
    x = torch.zeros(2, 3, 4, 4)
    examples = [FlipExamples(name, PALE, "up", x, x, x + 0.5, [0.4, 0.3], [0.6, 0.7]) for name in names]
    return Pictures(examples, {3: torch.full((3, 4, 4), 200, dtype=torch.uint8)})
