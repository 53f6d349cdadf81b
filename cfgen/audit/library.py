"""`audit`: is a classifier biased, by the counterfactuals of its images?  What `cfgen audit` and a notebook call."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cfgen.audit.checks import (
    check_intervention_work,
    check_numbers,
    fitting_predictor,
    parse_cohorts,
    parse_explained,
    parse_interventions,
)
from cfgen.audit.classifiers.external import ExternalClassifier
from cfgen.audit.classifiers.load import load_network
from cfgen.audit.label import question
from cfgen.audit.outcome import AuditResult, Flip
from cfgen.audit.plan import Plan, Scores
from cfgen.audit.report import flip_name
from cfgen.audit.results import EVERYONE, findings, flips
from cfgen.audit.run import Images, compute_scores, do_column, example_images
from cfgen.contracts import ImageData, KnowsTruth, ReadsAttributes
from cfgen.counterfactual import as_unit_float
from cfgen.errors import UserError
from cfgen.processes import Processes
from cfgen.progress import progress as progress_bar
from cfgen.reporting.provenance import data_fingerprint, fingerprint, git_commit, versions
from cfgen.runs.data import run_data
from cfgen.runs.model import TrainedModel

__all__ = ["AuditResult", "audit"]

CHECKED = 64  # images that a classifier is tried on before the work starts
EXAMPLES = 4  # images shown of each intervention and direction


def audit(
    model: TrainedModel,
    classifier: str | Path | nn.Module,
    *,
    do: Sequence[Mapping[str, Any] | str],
    among: Sequence[Mapping[str, Any] | str] = (),
    explain: str | Sequence[str] = "all",
    explain_count: int = 1000,
    keep_residual: bool = False,
    predictor: str | Path | ReadsAttributes | None = None,
    resize: tuple[int, int] | None = None,
    mean: Sequence[float] = (0.0,),
    std: Sequence[float] = (1.0,),
    layout: str = "nchw",
    output: str = "logit",
    positive: int | None = None,
    threshold: float = 0.5,
    label: str | None = None,
    trusted: bool = False,
    split: str = "test",
    count: int | None = None,
    batch_size: int = 100,
    seed: int = 0,
    processes: Processes | None = None,
    progress: bool = False,
) -> AuditResult:
    """Bias of a classifier (Eq. 4 and 5, Table 3) and the importance of attributes (Eq. 6), from the model's counterfactuals.

    Prints nothing.  The result is the same on every process, for any batch size.

    Args:
        model: makes the counterfactuals, of images of the data it was trained on.
        classifier: a network, or what `load_network` takes: a run, a file or MODULE:FUNCTION.
        do: interventions, each as {"Black_Hair": 1, "Pale_Skin": 1} or "Black_Hair=1,Pale_Skin=1".  Only images that do not
            have the values already are counted.
        among: cohorts, in the same way; the bias among these images alone is measured too.
        explain: binary attributes to rank by importance: "all", their names, or none.
        explain_count: they are ranked on so many images, from the first.
        keep_residual: add what the reconstruction lost to every counterfactual; the base image is then the image itself.
        predictor: a `Predictor`, or its run: in how many counterfactuals does it see what was asked for?
        resize, mean, std, layout, output, positive: what the classifier takes and returns; see `ExternalClassifier`.
        threshold: the answer is yes above this probability.
        label: what yes means; by default what a run of cfgen was trained to answer.  Where the data has a target or an
            attribute of that name, the classifier's accuracy is measured.
        trusted: the classifier's file may run code, which reading a `.pt2` file can do.
        split: "test" or "val".
        count: how many images, from the first; all by default.
        batch_size: images at a time.
        seed: of the noise that is abducted, of the confidence intervals and of the choice of examples.
        processes: where to compute, and with how many processes; by default here, on the model's device.
        progress: show a progress bar on stderr.
    """
    given = {name: plain(value) for name, value in locals().items() if name not in ("model", "processes", "progress")}
    started = time.time()
    check_numbers(threshold=threshold, seed=seed, count=count, batch_size=batch_size, explain_count=explain_count)
    schema = model.schema
    cohorts = parse_cohorts(schema, among)
    plan = Plan(
        parse_interventions(schema, do),
        parse_explained(schema, explain),
        explain_count,
        seed,
        batch_size,
        keep_residual,
    )
    network = classifier if isinstance(classifier, nn.Module) else load_network(classifier, trusted)
    external = ExternalClassifier(network, resize, mean, std, layout, output, positive)
    loaded_predictor = fitting_predictor(predictor, model.module, plan)
    data = read_data(model, split)
    images = Images(
        x=data.images(split)[:count],
        columns={name: column[:count] for name, column in data.columns(split).items()},
        split=split,
        truth=data if isinstance(data, KnowsTruth) else None,
    )
    everyone = torch.ones(len(images.x), dtype=torch.bool)
    members = {EVERYONE: everyone} | {text: cohort(images.columns, values) for text, values in cohorts.items()}
    check_intervention_work(schema, images.columns, plan, members)
    name = None if isinstance(classifier, nn.Module) else classifier
    label, answers = question(data, split, name, label, positive)
    device = model.schema.low.device if processes is None else processes.device
    external.to(device).check(as_unit_float(images.x[:CHECKED]).to(device))
    with contextlib.ExitStack() as stack:
        shown = progress and (processes is None or processes.first)
        advance = stack.enter_context(progress_bar("auditing", len(images.x))) if shown else lambda images: None
        scores = compute_scores(
            model.module, external, images, plan, predictor=loaded_predictor, processes=processes, advance=advance
        )  # fmt: skip
    labels = None if answers is None else answers[:count]
    number = 1 if processes is None else processes.count
    facts = {
        "options": {"model": plain(model.source), **given},
        "seed": seed,
        "data": {"split": split, "images": len(images.x), "sha256": data_fingerprint(images.x, images.columns)},
        "model": {"sha256": fingerprint(model.source, model.module), "graph": model.scm.graph.edges},
        "classifier": {"sha256": fingerprint(name, external)},
        "predictor": None
        if loaded_predictor is None
        else {"sha256": predictor_fingerprint(predictor, loaded_predictor)},
        "versions": versions(),
        "git_commit": git_commit(),
        "device": f"{number} x {device.type}",
        "model_scores": model_scores(model),
    }
    return AuditResult(
        findings=findings(scores, images.columns, plan, members, threshold, labels=labels),
        plan=plan,
        scores=scores,
        label=label,
        threshold=threshold,
        flips=flip_examples(model, images, plan, scores, threshold),
        graph=model.scm.graph,
        facts=facts | {"seconds": round(time.time() - started, 1)},
    )


def plain(value: Any) -> Any:
    """Options as values of JSON; an object stands as the name of its class."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Path():
            return str(value)
        case Mapping():
            return {str(key): plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case _:
            return type(value).__name__


def read_data(model: TrainedModel, split: str) -> ImageData:
    """The data that the model was trained on, read."""
    if split not in ("test", "val"):
        raise UserError(f"expected test or val, not {split!r}", argument="split")
    if model.source is None:
        raise UserError(
            "this model was not loaded from a run or a folder, so its data is not known; load it with cfgen.load",
            argument="model",
        )
    data = run_data(model.source)
    data.prepare_data()
    data.setup("test")
    return data


def cohort(columns: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> Tensor:
    """Which images have all these values."""
    return torch.stack([columns[name] == value.cpu() for name, value in values.items()]).all(dim=0)


def flip_examples(model: TrainedModel, images: Images, plan: Plan, scores: Scores, threshold: float) -> dict[str, Flip]:
    """Some images of each intervention and direction, by the names of their figures; as they were counted."""
    examples = {}
    for name in plan.do:
        for way, rows in flips(scores, name, threshold, EXAMPLES, plan.seed).items():
            if len(rows):
                triple = example_images(model.module, images, plan, name, rows)
                examples[flip_name(way, name)] = Flip(triple, scores["base"][rows], scores[do_column(name)][rows])
    return examples


def model_scores(model: TrainedModel) -> dict[str, Any]:
    """What `cfgen evaluate` measured of the model, where it was run."""
    try:
        return json.loads((model.folder / "metrics.json").read_text()) if model.folder is not None else {}
    except (OSError, ValueError):
        return {}


def predictor_fingerprint(given: object, predictor: ReadsAttributes) -> str | None:
    """Of its file or weights; an object without weights has none."""
    name = given if isinstance(given, (str, Path)) else None
    return fingerprint(name, predictor) if isinstance(predictor, nn.Module) else None
