"""An audit's result put together from a small table and given effects, so that reports are tested without a model."""

from dataclasses import replace

import numpy as np
import torch

from cfgen.audit.dose import Dose, DosePoint
from cfgen.audit.effect import Effect
from cfgen.audit.explained import Line
from cfgen.audit.outcome import Audited, AuditResult, contrasts
from cfgen.audit.plan import Plan, Scores
from cfgen.audit.results import EVERYONE, findings
from cfgen.audit.run import Triple
from cfgen.audit.shown import Flip, flip_name
from cfgen.audit.strength import Strength
from cfgen.audit.subgroups import SubgroupRow
from cfgen.audit.transformations import AFFINE
from cfgen.audit.verdict import Verdict
from cfgen.effects import Estimate
from cfgen.scm.graph import CausalGraph

PALE, OLD, THIN, THICK = "Black_Hair=1,Pale_Skin=1", "Young=0", "width=1", "width=2"
N = 100
COHORT = "Smiling=1"
GRAPH = CausalGraph(["Young", "Gray_Hair", "Black_Hair", "Pale_Skin", "Smiling", "width"], [("Young", "Gray_Hair")])
PLAN = Plan({PALE: {"Black_Hair": 1, "Pale_Skin": 1}, OLD: {"Young": 0}}, explain=["Young"])
WITH_CURVE = replace(
    PLAN, do={**PLAN.do, THIN: {"width": 1}, THICK: {"width": 2}}, curves={"width": [THIN, THICK]}, strengths=[0.5]
)
FACTS = {
    "options": {"model": "faces-modulated"},
    "data": {"split": "test", "images": N},
    "model": {"graph": [("Young", "Gray_Hair")], "sha256": "0" * 64},
    "model_scores": {"mse_x": 0.0123},
    "predictor": {"source": "given", "accuracy": {"Young": 0.9, "Black_Hair": 0.8}},
    "assumed": ["no intervention causes light, which is adjusted for"],
}


def table_of(columns):
    return Scores(list(columns), torch.stack(list(columns.values()), dim=1))


def scores(more=None):
    """100 base images, half yes.  By pale 20 turn to yes and 5 to no, 10 are not asked; age changes nothing."""
    base = torch.where(torch.arange(N) < 50, 0.8, 0.2)
    pale = base.clone()
    pale[50:70], pale[:5], pale[90:] = 0.9, 0.3, torch.nan
    columns = {"real": base, "base": base, "mse": torch.full((N,), 0.01)}
    columns |= dict.fromkeys(AFFINE, base) | {f"do/{PALE}": pale, f"do/{OLD}": base, "flip/Young": base - 0.1}
    return table_of(columns | {f"do/{THIN}": base, f"do/{THICK}": 1 - base} | (more or {}))


def lines():
    young, everyone = torch.ones(N, dtype=torch.bool), torch.ones(N, dtype=torch.bool)
    return [Line("Young", "Young", torch.zeros(N), ~young, everyone, "present")]


def estimate(value, half=0.03):
    """With an interval of about that half width."""
    return Estimate(value, half / 1.9842 * np.sqrt(N) * np.array([1.0, -1.0] * (N // 2)), N)


def effect(code="agrees", combined=0.25, model=0.2, held=(), half=0.03, strength=0.68):
    """`combined` is None where the model's word is all there is."""
    together = None if combined is None else estimate(combined, half)
    return Effect(
        kind="direct" if held else "total",
        held=list(held),
        changed=90,
        about=1.0,
        truth=None,
        have=60,
        effective=55.4,
        clipped=0.0,
        adjusted=["Smiling"],
        window={},
        positive=0.5,
        generator=estimate(model, half),
        generators=[estimate(model, half)],
        real=together,
        pairs=None,
        pair_count=0,
        combined=together,
        strength=Strength(strength, strength - 0.1, strength + 0.1, 0.66, 0.9, 0.1, True),
        problem="",
        verdict=Verdict(code, "Its reason.", "" if code == "agrees" else f"What to do about {code}."),
    )


def audited(name="runs/first", label="Attractive", plan=PLAN, effects=None, more=None, cohorts=True):
    mine = {(among, change): effect() for among in (EVERYONE, COHORT) for change in plan.do} | (effects or {})
    members = {EVERYONE: torch.ones(N, dtype=torch.bool)} | ({COHORT: torch.arange(N) % 2 == 0} if cohorts else {})
    table = scores(more)
    found = findings(
        table, replace(plan, strengths=()), members, resamples=100, lines=lines(), effects=mine,
        labels=torch.arange(N) < 60,
    )  # fmt: skip
    dose = Dose([DosePoint(0.0, 0.0, 0.0, 90), DosePoint(0.5, 0.4, 0.111, 90), DosePoint(1.0, 1.1, 0.222, 90)], 0.207)
    rows = [replace(row, dose=dose) if plan.strengths and row.effect else row for row in found.bias]
    groups = [
        SubgroupRow(change, "Smiling", f"Smiling={value}", 45, one.headline.value, -0.02, 0.31, one.combined is not None,
                    one.verdict.code, 0.013)
        for (among, change), one in mine.items() if among == EVERYONE for value in (0, 1)
    ]  # fmt: skip
    picture = torch.zeros(2, 3, 4, 4)
    flip = Flip(Triple(picture, picture, picture + 0.5), torch.tensor([0.4, 0.3]), torch.tensor([0.6, 0.7]))
    return Audited(name, label, replace(found, bias=rows), table, groups, {flip_name("up", PALE): flip})


def result(*several, plan=PLAN, **more):
    """Of one classifier without further words."""
    several = list(several) or [audited(plan=plan)]
    whole = {"local": {3: torch.full((3, 4, 4), 200, dtype=torch.uint8)}, "facts": FACTS, "graph": GRAPH}
    whole |= {"command": "cfgen audit --model 'a run' --do Young=0", "lines": lines(), "threshold": 0.5}
    return AuditResult(audited=several, contrasts=contrasts(several), plan=plan, **whole | more)


def without_pictures(found):
    """The same, as if it had no figures: drawing them takes seconds."""
    vars(found)["pictures"] = {}
    return found
