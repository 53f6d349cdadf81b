"""Evaluation of trained models: one pass over the images serves all metrics."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from cfgen.counterfactual import Asked, Swept, asked_of, sweep
from cfgen.errors import UserError
from cfgen.evaluation.judges import Judges, load_judges
from cfgen.evaluation.metrics import metric_classes
from cfgen.evaluation.metrics.base import Again, Metric, Missing, Values
from cfgen.evaluation.options import EvaluateOptions
from cfgen.evaluation.pictures import model_figures
from cfgen.evaluation.results import Evaluation
from cfgen.evaluation.statistics import Score, Table, judged_score, over_seeds, summary
from cfgen.evaluation.subject import Model, Subject, subjects_of
from cfgen.evaluation.threads import fitting_batch_size, in_threads, worker_count
from cfgen.metrics.asked import asked_values
from cfgen.options import documented_by, make_options
from cfgen.processes import Processes
from cfgen.progress import progress as progress_bar

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Pass", "choose", "evaluate", "evaluations", "pass_over", "score"]

Advance = Callable[[int], None]


@documented_by(EvaluateOptions)
def evaluate(model: Model, **options: Any) -> Evaluation:
    """Scores a trained model on images of its own data, and draws its figures.

    Args:
        model: a loaded model, or what it is loaded from.
        options: the fields of `EvaluateOptions`.
    """
    _, steps = evaluations([model], make_options(EvaluateOptions, options))
    return next(steps)


def evaluations(models: Sequence[Model], options: EvaluateOptions) -> tuple[list[Subject], Iterator[Evaluation]]:
    """What is evaluated, and one evaluation after the other as they are asked for; all that is refused is refused first."""
    subjects = subjects_of(models, options.split, options.count, options.trusted)
    judges = load_judges(
        subjects[0], options.classifier, options.judges, options.fid, options.identity, options.trusted
    )
    chosen = choose(options.metrics, subjects[0], judges)
    require_used(options, chosen, judges)
    device = subjects[0].schema.low.device
    if options.processes is not None:
        options.processes.launch()
        device = options.processes.device
        for subject in subjects:
            if isinstance(subject.mechanism, nn.Module):
                subject.mechanism.to(device)
    judges = judges.to(device)
    return subjects, (score(subject, judges, chosen, options) for subject in subjects)


def choose(names: Sequence[str] | None, subject: Subject, judges: Judges) -> list[type[Metric]]:
    """The metrics of these names, or all that apply; refuses a name of which none applies."""
    networks = [name for name in ("fid", "identity") if getattr(judges, name) is not None]
    wanted = None if names is None else {*names, *networks}
    classes = [metric for metric in metric_classes() if wanted is None or metric.name in wanted]
    lacking = {metric: metric.missing(subject, judges) for metric in classes}
    chosen = [metric for metric, missing in lacking.items() if missing is None]
    for name in names or ():
        if name not in {metric.name for metric in chosen}:
            words = [in_words(missing) for metric, missing in lacking.items() if missing and metric.name == name]
            raise UserError(f"{name} needs {', or '.join(words)}", argument="metrics")
    return chosen


def require_used(options: EvaluateOptions, chosen: Sequence[type[Metric]], judges: Judges) -> None:
    """Refuses an argument that none of the chosen metrics makes anything of."""
    given = {
        "classifier": options.classifier is not None,
        "predictor": options.predictor is not None and bool(options.judges),
        "fid": options.fid is not None,
        "identity": options.identity is not None,
        "values": options.values > 1,
    }
    used = {argument for metric in chosen for argument in metric.uses(judges)}
    for argument in (argument for argument, is_given in given.items() if is_given and argument not in used):
        measured = ", ".join(dict.fromkeys(metric.name for metric in chosen))
        raise UserError(f"none of the metrics makes use of it ({measured}); leave it out, or choose others", argument)


def in_words(missing: Missing) -> str:
    return missing.words + (f" (set {missing.argument})" if missing.argument else "")


def score(subject: Subject, judges: Judges, chosen: Sequence[type[Metric]], options: EvaluateOptions) -> Evaluation:
    """A model's scores over all seeds; the figures are of the first seed, from the same computing."""
    processes = options.processes or Processes()
    metrics = [metric(subject, judges, options.values) for metric in chosen]
    found: list[dict[str, Score]] = []
    figures: dict[str, Figure] = {}
    with shown(options, subject) as advance:
        for seed in options.all_seeds:
            done = pass_over(subject, metrics, seed, processes, options.batch_size, advance)
            found.append(scores_of(metrics, done.table, processes))
            if seed == options.seed:
                # on every process: a figure may reduce over all of them, and the others would only wait
                for metric in metrics:
                    figures |= metric.figures({name: done.table[name] for name in done.table.slices}, done.again)
                figures |= model_figures(subject, seed)
    facts: dict[str, Any] = {"images": len(subject.x), "split": subject.split, "seed": options.seed}
    facts |= {"seeds": options.seeds} if options.seeds > 1 else {}
    facts |= {"values": options.values} if options.values > 1 else {}
    described = {name: what for metric in metrics for name, what in metric.descriptions().items()}
    used = list(dict.fromkeys(judge for what in described.values() for judge in what.judges))
    # an empty list says that judges were wanted, and that none knows the data
    facts |= {"judges": used} if used or options.judges is None else {}
    return Evaluation(subject.name, over_seeds(found), described, facts, figures, subject.folder)


@contextlib.contextmanager
def shown(options: EvaluateOptions, subject: Subject) -> Iterator[Advance]:
    """The progress bar, where it is wanted and this process is the one that shows it."""
    if not options.progress or (options.processes is not None and not options.processes.first):
        yield lambda images: None
        return
    with progress_bar(f"evaluating {subject.name}", len(subject.x) * options.seeds) as advance:
        yield advance


class Pass(NamedTuple):
    """The values of all images in one pass over them, and what computes images of it again."""

    table: Table
    again: Again


def pass_over(
    subject: Subject,
    metrics: Sequence[Metric],
    seed: int,
    processes: Processes,
    batch_size: int | None = None,
    advance: Advance = lambda images: None,
) -> Pass:
    """One sweep for all metrics: each image abducted once, each counterfactual that any of them asks for decoded once."""
    mechanism, device = subject.mechanism, subject.schema.low.device
    values = asked_values(subject.columns, subject.schema, seed)
    wanted: dict[str, Mapping[str, Tensor]] = {}
    for metric in metrics:
        metric.start(seed, values)
        wanted |= metric.interventions()
    asked: dict[str, Asked] = {}
    for name, do in wanted.items():
        moved = {attribute: column.to(device) for attribute, column in do.items()}
        asked[name] = asked_of(mechanism, subject.columns, moved, seed)

    def batches(**options: object) -> Iterator[Swept]:
        return sweep(mechanism, subject.x, subject.columns, asked, seed=seed, **options)  # type: ignore[arg-type]

    @torch.inference_mode()
    def update(batch: Swept) -> tuple[Tensor, Values]:
        return batch.rows, {name: values for metric in metrics for name, values in metric.update(batch).items()}

    table = Table(widths_of(metrics), len(subject.x))
    workers = worker_count(device)
    at_once = -(-(batch_size or fitting_batch_size(mechanism.image_shape)) // workers)  # all workers' images together
    mine = (batch for batch in batches(batch_size=at_once, share=processes.share) if len(batch))
    for rows, part in in_threads(update, mine, workers):
        table.write(rows, part)
        advance(len(rows) * processes.count)
    table.values = processes.sum(table.values)
    return Pass(table, lambda rows: next(batches(batch_size=max(1, len(rows)), only=rows)))


def widths_of(metrics: Sequence[Metric]) -> dict[str, int]:
    """The columns of all metrics' values."""
    widths: dict[str, int] = {}
    for metric in metrics:
        described = metric.descriptions().items()
        widths |= {name: len(what.judges) or what.width for name, what in described if what.width}
        widths |= metric.extra_columns()
    return widths


def scores_of(metrics: Sequence[Metric], table: Table, processes: Processes) -> dict[str, Score]:
    """The scores of one pass, of each metric in turn."""
    scores: dict[str, Score] = {}
    for metric in metrics:
        described = metric.descriptions().items()
        for name, what in described:
            if what.width:
                values = table[name]
                scores[name] = judged_score(values) if what.judges else summary(values, metric.reduction)
        scores |= metric.finish(processes.share)
    return scores
