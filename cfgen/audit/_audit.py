"""`audit`: the steps of an audit in one call, as `cfgen audit` and a notebook use them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cfgen.audit import report
from cfgen.audit._answer import answer
from cfgen.audit._estimate import estimate
from cfgen.audit._illustrate import illustrate
from cfgen.audit._prepare import AnyClassifier, as_list, prepare
from cfgen.audit.options import AuditOptions
from cfgen.audit.result import AuditResult
from cfgen.classifiers import ExternalClassifier
from cfgen.io.writing import NewFolder
from cfgen.options import make_options
from cfgen.processes import Processes
from cfgen.progress import Progress
from cfgen.runs.model import TrainedModel
from cfgen.runs.provenance import git_commit, versions


def audit(
    model: TrainedModel,
    classifier: AnyClassifier | Sequence[AnyClassifier],
    *,
    models: Sequence[TrainedModel | str | Path] = (),
    processes: Processes | None = None,
    progress: Progress = False,
    **options: Any,
) -> AuditResult:
    """Bias of a classifier (Eq. 4 and 5, Table 3) from counterfactuals and from real images, and importance (Eq. 6).

    Prints nothing.  The result is the same on every process, for any batch size.

    Args:
        model: makes the counterfactuals; the images are those of its data.
        classifier: an `ExternalClassifier`, a network, or what names one (a run, a file, MODULE:FUNCTION); or several, which are
            compared with the first.
        models: further models of the same data.  Estimates are pooled, and disagreement widens the interval (Rubin's rule).
        processes: where to compute, and with how many processes; by default here, on the model's device.
        progress: show a progress bar on stderr, or a function that is told how far it is, which may raise to stop the audit.
        options: the fields of `AuditOptions`, such as do=["Young=0"].
    """
    started = time.time()
    chosen = make_options(AuditOptions, options)
    questions = prepare([model, *models], classifier, chosen, processes=processes, progress=progress)
    answers, readings = answer(questions, processes=processes, progress=progress)
    result = estimate(questions, answers, readings)
    device = model.schema.low.device if processes is None else processes.device
    provenance = {
        "options": {"model": None if model.source is None else str(model.source), **chosen.to_dict()},
        "classifiers": [
            {"name": one.name, **one.settings} for one in as_list(classifier) if isinstance(one, ExternalClassifier)
        ],
        "versions": versions(),
        "git_commit": git_commit(),
        "device": f"{1 if processes is None else processes.count} x {device.type}",
        "seconds": round(time.time() - started, 1),
    }
    return replace(result, provenance=provenance)


def write_report(result: AuditResult, folder: str | Path | NewFolder) -> Path:
    """Draws the example images and writes results, figures and the report into a folder that is new or empty."""
    return report.write(result, illustrate(result.questions, result), folder)
