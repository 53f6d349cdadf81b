"""`audit`: is a classifier biased, by counterfactuals and by real images?  What `cfgen audit` and a notebook call."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cfgen.audit.checks import (
    check_intervention_work,
    check_numbers,
    check_used,
    parse_adjusted,
    parse_cohorts,
    parse_local,
    parse_plan,
    settled,
    shift_notes,
)
from cfgen.audit.classes import class_findings
from cfgen.audit.estimating import Setting, effects
from cfgen.audit.explained import ranking_lines
from cfgen.audit.judging import Judge, fitting_predictor, judge_of
from cfgen.audit.material import (
    choose_pairs,
    fitting_models,
    flip_examples,
    model_data,
    model_scores,
    outside_answers,
    plain,
)
from cfgen.audit.outcome import Audited, AuditResult, contrasts
from cfgen.audit.respondents import Classifiers, as_list, check_on, class_notes, respondents, with_labels
from cfgen.audit.results import EVERYONE, findings
from cfgen.audit.run import Images, compute_scores
from cfgen.audit.shown import in_detail
from cfgen.audit.subgroups import subgroup_rows, subgroups_of
from cfgen.contracts import KnowsTruth, ReadsAttributes
from cfgen.counterfactual import as_unit_float
from cfgen.external.answers import EveryClass
from cfgen.processes import Processes
from cfgen.progress import Progress, reported
from cfgen.reporting.provenance import data_fingerprint, fingerprint, git_commit, versions
from cfgen.runs.model import TrainedModel

__all__ = ["AuditResult", "audit"]

CHECKED = 64  # images that a classifier is tried on before the work starts
NOT_OPTIONS = ("model", "processes", "progress")
OF_CLASSES = ("classes", "focus")  # options that are told where they are given


def audit(
    model: TrainedModel,
    classifier: Classifiers,
    *,
    do: Sequence[Mapping[str, Any] | str],
    among: Sequence[Mapping[str, Any] | str] = (),
    subgroups: str | Sequence[str] = (),
    curves: Sequence[str] = (),
    hold: Sequence[str] = (),
    adjust: Sequence[str] = (),
    pairs: int | str | Path | None = None,
    strengths: Sequence[float] = (),
    explain: str | Sequence[str] = "all",
    explain_count: int = 1000,
    local: Sequence[int] = (),
    keep_residual: bool = False,
    models: Sequence[TrainedModel | str | Path] = (),
    predictor: str | Path | ReadsAttributes | None = "train",
    resize: tuple[int, int] | None = None,
    mean: Sequence[float] = (0.0,),
    std: Sequence[float] = (1.0,),
    layout: str = "nchw",
    output: str = "logit",
    positive: int | Sequence[int] | None = None,
    classes: Sequence[str] = (),
    focus: Sequence[str] = (),
    threshold: float = 0.5,
    label: str | None = None,
    trusted: bool = False,
    split: str = "test",
    count: int | None = None,
    batch_size: int = 100,
    seed: int = 0,
    processes: Processes | None = None,
    progress: Progress = False,
) -> AuditResult:
    """Bias of a classifier (Eq. 4 and 5, Table 3) by the model's counterfactuals and by real images, and importance (Eq. 6).

    For every intervention there is a verdict, whether the model's images can be believed, and an estimate that real images
    correct (`Effect`).  Prints nothing.  The result is the same on every process, for any batch size.

    Args:
        model: makes the counterfactuals, of images of the data it was trained on.
        classifier: a network, or what `load_network` takes: a run, a file or MODULE:FUNCTION; or several, which are compared with
            the first.
        do: interventions, each as {"Black_Hair": 1, "Pale_Skin": 1} or "Black_Hair=1,Pale_Skin=1".  Only images that do not
            have the values already are counted.  "size=+2" and "size=-0.5sd" shift each image's own value, the second in standard
            deviations of the training images; "size=10:20" compares all images at 20 with all at 10.
        among: cohorts, in the same way; the bias among these images alone is measured too.
        subgroups: attributes ("all": all) in each of whose values the bias is measured, corrected for looking at many.
        curves: continuous attributes that are set to several values: "thickness", or "thickness=1,2,3".
        hold: attributes that keep their values although an intervention would change them: its direct effect, not the total one.
        adjust: columns of the data beside the model's attributes to adjust for; you say that no intervention causes them.
        pairs: how many true counterfactuals of the data to use (data that knows or can make them), or a table of before and
            after pictures (`read_pairs`).
        strengths: other strengths of the interventions, e.g. 0.5 and 1.5, at which the bias is measured on the first images.
        explain: attributes to rank by importance: "all", their names, or none.
        explain_count: rank them on the first so many images.
        local: numbers of images to explain one by one, below `explain_count`.
        keep_residual: add what the reconstruction lost to every counterfactual; the base image is then the image itself.
        models: further models of the same data: estimates are pooled, and their disagreement widens the interval (Rubin's rule).
        predictor: reads what was drawn: a `Predictor`, its run, "train" (one is trained on the model's data and kept beside the
            model, unless the model was calibrated) or None.
        resize, mean, std, layout, output, positive: what the classifier takes and returns; see `ExternalClassifier`.  Several
            positive classes are audited one by one.  With the output "value" the network predicts a number, and its mean change
            is measured in place of a bias.
        classes: the names of the classifier's classes, in its order; a classifier of more than two is audited for each of them,
            as the most probable class is its answer.  By default they are the values of the data's target, or numbers.
        focus: of these the classes that findings are wanted of; all by default.
        threshold: the answer is yes above this probability.
        label: what yes means; by default what a run of cfgen was trained to answer.  Where the data has a target or an
            attribute of that name, the classifier's accuracy is measured.
        trusted: the classifier's file may run code, which reading a `.pt2` file can do, and classes of your own that the run of a
            classifier, a predictor or a further model names are imported, which does so too.
        split: "test" or "val".
        count: how many images, from the first; all by default.
        batch_size: images at a time.
        seed: of the noise that is abducted, of the confidence intervals and of the choice of examples.
        processes: where to compute, and with how many processes; by default here, on the model's device.
        progress: show a progress bar on stderr, or tell a function how far it is, which may raise to stop the audit.
    """
    given = {
        name: plain(value)
        for name, value in locals().items()
        if name not in NOT_OPTIONS and not (name in OF_CLASSES and not value)
    }
    started = time.time()
    check_numbers(threshold=threshold, seed=seed, count=count, batch_size=batch_size, explain_count=explain_count)
    cohorts = parse_cohorts(model.schema, among)
    plan = parse_plan(
        model.scm, do, curves, hold, strengths, explain,
        explain_count=explain_count, seed=seed, batch_size=batch_size, keep_residual=keep_residual,
    )  # fmt: skip
    check_used(audit.__kwdefaults__ or {}, output=output, threshold=threshold, plan=plan)
    others = fitting_models(model, models, trusted)
    data = model_data(model, split)
    target = getattr(data, "target_kind", None)
    answering = respondents(
        classifier, positive, trusted=trusted, classes=as_list(classes) if classes else (), focus=as_list(focus) if focus else (),
        target=target, image_shape=model.module.image_shape,
        resize=resize, mean=mean, std=std, layout=layout, output=output,
    )  # fmt: skip
    reader = fitting_predictor(predictor, model.module, plan, trusted)
    data.prepare_data()  # from here on it can take long
    data.setup("test")
    images = Images(
        x=data.images(split)[:count],
        columns={name: column[:count] for name, column in data.columns(split).items()},
        split=split,
        truth=data if isinstance(data, KnowsTruth) else None,
    )
    explained = parse_local(local, len(images.x), plan)
    extra = {name: column[:count] for name, column in parse_adjusted(data, split, adjust).items()}
    groups = subgroups_of(model.schema, images.columns, subgroups)
    everyone = torch.ones(len(images.x), dtype=torch.bool)
    plan = settled(plan, model.schema, images.columns, data.columns("train"))
    members = {EVERYONE: everyone} | {text: cohort(images.columns, values) for text, values in cohorts.items()}
    check_intervention_work(model.schema, images.columns, plan, members)
    answering = with_labels(answering, data, split, len(images.x), label, trusted)
    device = model.schema.low.device if processes is None else processes.device
    check_on(as_unit_float(images.x[:CHECKED]), answering, device)
    images, outside_pairs = choose_pairs(images, data, model, plan, pairs)
    judge = judge_of(reader, predictor, model, data, plan, processes, progress)
    lines = list(ranking_lines(model.schema, images.columns, plan.explain, plan.explain_count))
    classifiers = {one.network: one.classifier for one in answering}
    with contextlib.ExitStack() as stack:
        shown = progress if processes is None or processes.first else False
        work = (1 + len(others)) * len(images.x)
        advance = stack.enter_context(reported(shown, "auditing", work))
        ask = partial(
            compute_scores, classifiers=classifiers, images=images, plan=plan, processes=processes, advance=advance
        )
        tables = ask(model.module, lines=lines, predictor=judge.predictor)
        further = [ask(one.module) for one in others]
    setting = Setting(
        schema=model.schema,
        graph=model.scm.graph,
        columns=images.columns,
        plan=plan,
        cohorts=members,
        chosen_by={text: set(values) for text, values in cohorts.items()},
        threshold=threshold,
        others=extra,
        strengths=judge.calibrated,
        outside=outside_answers(model.module, classifiers, outside_pairs, plan, threshold),
    )
    in_groups = replace(
        setting,
        cohorts={group.name: group.members for group in groups},
        chosen_by={group.name: {group.attribute} for group in groups},
    )
    answers = {one.name: [tables[one.name], *(more[one.name] for more in further)] for one in answering}
    found, found_in_groups = effects(setting, answers), effects(in_groups, answers)
    audited = [
        Audited(
            name=one.name,
            label=one.label,
            findings=findings(
                tables[one.name], plan, members, threshold,
                labels=one.labels, lines=lines, effects=found[one.name],
            ),
            scores=tables[one.name],
            subgroups=subgroup_rows(groups, found_in_groups[one.name]),
            flips={},
            network=one.network,
            of_class=one.of_class,
        )
        for one in answering
    ]  # fmt: skip
    audited = [
        replace(one, flips=flip_examples(model.module, images, plan, one.scores, threshold)) if one.detailed else one
        for one in in_detail(audited, bool(focus))
    ]
    facts = {
        "options": {"model": plain(model.source), **given},
        "seed": seed,
        "data": {"split": split, "images": len(images.x), "sha256": data_fingerprint(images.x, images.columns)},
        "model": {"sha256": fingerprint(model.source, model.module), "graph": model.scm.graph.edges},
        "models": [{"source": plain(one.source), "sha256": fingerprint(one.source, one.module)} for one in others],
        "classifiers": [{"name": one.name, "sha256": fingerprint(one.given, one.classifier)} for one in answering],
        "predictor": judge.facts,
        "assumed": [
            *assumptions(extra, judge),
            *class_notes(answering, classes, target),
            *shift_notes(plan, model.schema, images.columns),
        ],
        "versions": versions(),
        "git_commit": git_commit(),
        "device": f"{1 if processes is None else processes.count} x {device.type}",
        "model_scores": model_scores(model),
        "seconds": round(time.time() - started, 1),
    }
    return AuditResult(
        audited=audited,
        contrasts=contrasts(audited),
        plan=plan,
        lines=lines,
        local={number: images.x[number].clone() for number in explained},  # a view would keep all images
        threshold=threshold,
        graph=model.scm.graph,
        facts=facts,
        classes=[
            class_findings(
                one.network, several.classes, [tables[name] for name in several.tables], plan, members, one.class_labels
            )
            for one in {one.network: one for one in answering}.values()
            if isinstance(several := one.classifier, EveryClass)
        ],
    )


def cohort(columns: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> Tensor:
    """Which images have all these values."""
    return torch.stack([columns[name] == value.cpu() for name, value in values.items()]).all(dim=0)


def assumptions(extra: Mapping[str, Tensor], judge: Judge) -> list[str]:
    """What was taken for granted without having been asked for in words."""
    found = [f"no intervention causes {name}, which is adjusted for" for name in extra]
    match (judge.facts or {}).get("source"):
        case "calibration":
            found.append("how strongly attributes are drawn is taken from the model's calibration")
        case "trained on the spot":
            found.append("how strongly attributes are drawn is read by a predictor trained for this audit")
    return found
