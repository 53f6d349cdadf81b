"""`python -m cfgen.evaluate RUN [RUN ...]`: scores runs on their whole test split, on one device, with a seed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import track
from torch import Tensor

from cfgen import figures
from cfgen.attributes import unknown_name
from cfgen.audit.folder import png, write
from cfgen.audit.label import ANY, trained_target
from cfgen.errors import UserError
from cfgen.evaluation import (
    Score,
    Scores,
    commutativity,
    cycles,
    label_accuracy,
    measured,
    minimality,
    predicted,
    reversibility,
    true_counterfactual_errors,
)  # fmt: skip
from cfgen.evaluation.comparison import comparison_csv, comparison_html, comparison_markdown
from cfgen.evaluation.metrics.batches import BATCH
from cfgen.evaluation.metrics.classifier_bias import audited, bias_values, require_binary
from cfgen.evaluation.metrics.label_accuracy import label_name
from cfgen.evaluation.metrics.predicted import ReadsAttributes, common_attributes
from cfgen.evaluation.metrics.truth import KnowsTruth
from cfgen.evaluation.pictures import answer_figures, first_images, misclassified, run_figures
from cfgen.evaluation.report import as_csv, as_json, show, tells_less
from cfgen.evaluation.statistics import over_seeds
from cfgen.evaluation.subject import Subject, require_finished, subjects
from cfgen.metrics.effectiveness import Comparison, measurable
from cfgen.metrics.fid import FID, fids
from cfgen.networks.features import feature_network, network_name
from cfgen.option_types import count, natural
from cfgen.runs.folders import new_run_folder
from cfgen.runs.loading import load_classifier, load_reader
from cfgen.training.cli import one_line_errors
from lightning_modules import Classifier

EPILOG = """examples:
  cfgen evaluate runs/quickstart                                              scores and figures, into the run's folder
  cfgen evaluate runs/morphomnist_ali --classifier runs/morphomnist_classifier --predictor runs/morphomnist_reader
  cfgen evaluate runs/faces_ali runs/faces_styleali runs/faces_csali --fid inception       and a comparison of the three
"""
ABLATION = 10  # images of the comparison's figure
METRICS = ("effectiveness", "labels", "bias", "truth", "cycles", "reversibility", "commutativity", "minimality")


@dataclass(frozen=True)
class Judges:
    """What scores besides the data: a classifier, a predictor of attributes, a network's features; each where given.

    `metrics` are those of METRICS that are wanted, `values` is how many values of an attribute morphometry asks each image for,
    `label` is what the classifier's yes means.
    """

    classifier: Classifier | None
    predictor: ReadsAttributes | None
    fid: tuple[str, FID] | None
    metrics: Sequence[str]
    values: int
    label: str


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    return one_line_errors(lambda: evaluate(options))


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cfgen evaluate",
        description="Scores runs on their test split: effectiveness (Table 1), reconstruction and FID (Table 2), composition, "
        "reversibility, commutativity and minimality, and the distance from the true counterfactuals where they are known. "
        "Writes metrics.json, a CSV and figures into each run's folder; of several runs also a comparison.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="a run folder, a checkpoint or an exported model; several are compared")
    add("--classifier", metavar="RUN",
        help="a classifier's run: of labels, it judges label counterfactuals (Appendix G); of yes or no, its bias under every "
        "binary attribute is measured (Eq. 5)")  # fmt: skip
    add("--predictor", metavar="RUN", help="a run of AttributeReader, which reads the attributes off counterfactuals")
    add("--fid", metavar="NETWORK",
        help="also the FID of generated images: inception, efficientnet_lite0 or module:callable")  # fmt: skip
    add("--metrics", type=chosen_metrics, default=METRICS, metavar="NAME[,...]",
        help=f"only these, of {', '.join(METRICS)} (default: all that apply; the last three take long where there are many "
        "attributes)")  # fmt: skip
    add("--split", choices=["test", "val"], default="test", help="val while you choose settings")
    add("--images", type=count, metavar="N", help="the first N images only; all by default")
    add("--seed", type=natural, default=0, help="of the values asked for and of all noise (default: 0)")
    add("--seeds", type=count, default=1, metavar="N",
        help="repeat with N seeds from --seed on; values are then means over seeds (default: 1)")  # fmt: skip
    add("--values", type=count, default=1, metavar="N",
        help="ask each image for N values of every attribute that is measured (default: 1; the paper asks for 100)")  # fmt: skip
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu, cuda, cuda:1, ...")
    add("--out", metavar="DIR", help="a new folder for the comparison; by default the next free comparisons/NNN")
    return parser


def chosen_metrics(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in METRICS:
            raise argparse.ArgumentTypeError(unknown_name("metric", name, METRICS))
    return names


def evaluate(options: argparse.Namespace) -> None:
    if options.out and len(options.runs) < 2:
        raise UserError("--out is for the comparison of several runs; one run's results go into its own folder")
    if options.out and Path(options.out).exists():
        raise UserError(f"{options.out} exists already: --out takes a new folder")
    require_device(options.device)
    found = subjects(options.runs, options.split, options.images, options.device)
    judges = load_judges(options, found)
    seeds = range(options.seed, options.seed + options.seeds)
    results = {subject.name: evaluate_run(subject, judges, seeds) for subject in found}
    if len(found) > 1:
        folder = Path(options.out) if options.out else new_run_folder(Path(), "comparisons")
        compare_runs(folder, found, results, seeds)


def require_device(device: str) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"--device {device} cannot be used here ({str(error).splitlines()[0]})") from error


def load_judges(options: argparse.Namespace, found: Sequence[Subject]) -> Judges:
    """Loads what was named, and refuses what cannot judge these runs before any of them is scored."""
    model = found[0].model
    for run in filter(None, (options.classifier, options.predictor)):
        require_finished(run)
    classifier = load_classifier(options.classifier, options.device) if options.classifier else None
    predictor = load_reader(options.predictor, options.device) if options.predictor else None
    for option, judge in (("--classifier", classifier), ("--predictor", predictor)):
        if judge is not None and judge.image_shape != model.module.image_shape:
            theirs, ours = judge.image_shape, model.module.image_shape
            raise UserError(f"{option} sees images of shape {theirs}, and the run makes images of shape {ours}")
    if classifier is not None and classifier.classes > 2:
        label_name(model.schema, classifier.classes)
    elif classifier is not None:
        require_binary(model.schema)
    if predictor is not None:
        common_attributes(model.schema, predictor.schema)
    fid = (network_name(options.fid), FID(feature_network(options.fid)).to(options.device)) if options.fid else None
    if fid is not None:
        if len(found[0].x) < 2:
            raise UserError("--fid needs 2 images or more, and tells something of a thousand")
        fid[1].check(found[0].x[:2])
    label = (options.classifier and trained_target(options.classifier)) or ANY
    judges = Judges(classifier, predictor, fid, options.metrics, options.values, label)
    if options.metrics is not METRICS:  # asked for by name
        require_applicable(judges, found[0])
    return judges


def require_applicable(judges: Judges, subject: Subject) -> None:
    """Refuses metrics that these runs and judges have no numbers for."""
    classes = judges.classifier.classes if judges.classifier is not None else 0
    missing = {
        "effectiveness": None if measurable(subject.model.schema) or judges.predictor else "--predictor",
        "labels": None if classes > 2 else "--classifier with a classifier of labels",
        "bias": None if classes == 2 else "--classifier with a classifier of yes or no",
        "truth": None
        if isinstance(subject.data, KnowsTruth)
        else "data whose true counterfactuals are known, such as Faces",
    }
    for name in judges.metrics:
        if missing.get(name):
            raise UserError(f"--metrics {name} needs {missing[name]}")


def evaluate_run(subject: Subject, judges: Judges, seeds: range) -> dict[str, Score]:
    """Scores a run with every seed, prints the scores and writes them; the figures are of the first seed."""
    drawn: dict[str, Figure] = {}
    scores = over_seeds([score(subject, judges, seed, drawn if seed == seeds[0] else None) for seed in seeds])
    drawn |= dict(run_figures(subject))
    several = {"seeds": len(seeds)} if len(seeds) > 1 else {}
    several |= {"values": judges.values} if judges.values > 1 else {}
    facts = {"images": len(subject.x), "split": subject.split, "seed": seeds[0], **several}
    show(about(subject, seeds), subject.model.schema, scores)
    name = "metrics" if subject.split == "test" else f"metrics-{subject.split}"
    text = as_json(scores, facts)
    partial = "-partial" if tells_less(text, subject.folder / f"{name}.json") else ""
    contents = {
        f"{name}{partial}.json": text.encode(),
        f"metrics-{subject.split}{partial}.csv": as_csv(scores).encode(),  # metrics.csv is training's own
    }
    contents |= {f"{name}-{subject.split}.png": png(figure) for name, figure in drawn.items()}
    write_all(subject.folder, contents)
    return scores


def score(subject: Subject, judges: Judges, seed: int, drawn: dict[str, Figure] | None) -> dict[str, Score]:
    """All metrics of a run with one seed; where `drawn` is given, also the figures that come from the same computing."""
    mechanism, x, columns = subject.model.module, subject.x, subject.columns
    classifier, predictor, split = judges.classifier, judges.predictor, subject.split
    scores, seen = Scores(), list[Comparison]()

    def gather(title: str, metric: Callable[..., Iterator[dict[str, Tensor]]], *more: Any) -> None:
        torch.manual_seed(seed)  # for mechanisms that draw their state
        for part in shown(metric(mechanism, *more, x, columns, seed), title, -(-len(x) // BATCH)):
            scores.add(part)

    wanted = judges.metrics
    if "effectiveness" in wanted and measurable(subject.model.schema):
        gather("effectiveness, measured", measured, judges.values, seen)
    if "effectiveness" in wanted and predictor is not None:
        gather("effectiveness, predicted", predicted, predictor)
    labels = "labels" in wanted and classifier is not None and classifier.classes > 2
    if labels:
        gather("label accuracy", label_accuracy, classifier)
    if "truth" in wanted and isinstance(subject.data, KnowsTruth):
        gather("true counterfactuals", true_counterfactual_errors, subject.data, split)
    if "cycles" in wanted:
        gather("composition", cycles)
    if "reversibility" in wanted:
        gather("reversibility", reversibility)
    if "commutativity" in wanted:
        gather("commutativity", commutativity)
    if "minimality" in wanted:
        gather("minimality", minimality, subject.data, split)
    audit = None
    if "bias" in wanted and classifier is not None and classifier.classes == 2:
        audit = audited(subject, classifier, seed)
        scores.add(bias_values(audit.scores, audit.plan))
    if drawn is not None:
        if seen:
            drawn["target_against_measured"] = figures.target_against_measured(seen)
        if audit is not None:
            drawn |= dict(answer_figures(audit, judges.label))
        if labels and classifier is not None:
            right = scores[f"accuracy/do({label_name(subject.model.schema, classifier.classes)})"]
            if (figure := misclassified(subject, classifier, right, seed)) is not None:
                drawn["misclassified_labels"] = figure
    found = scores.summary()
    if judges.fid is not None:
        name, metric = judges.fid
        with Console(stderr=True).status("FID"):
            distances = fids(metric, mechanism, subject.model.scm, x, columns, seed=seed)
        found |= {f"fid_{name}/{kind}": Score(value.item(), torch.nan, len(x)) for kind, value in distances.items()}
    return found


def shown(steps: Iterator[Any], what: str, total: int) -> Any:
    return track(steps, what, total=total, console=Console(stderr=True), transient=True)


def compare_runs(folder: Path, found: Sequence[Subject], results: dict[str, dict[str, Score]], seeds: range) -> None:
    """The comparison's folder: tables, and the reconstructions of the same images by every run (Appendix K)."""
    x, a = first_images(found[0], ABLATION)
    ablation = figures.ablation_rows({subject.name: subject.model.module for subject in found}, x, a)
    title, schema, picture = f"{len(found)} runs, {about(found[0], seeds)}", found[0].model.schema, png(ablation)
    contents = {
        "ablation.png": picture,
        "comparison.csv": comparison_csv(results).encode(),
        "comparison.md": comparison_markdown(title, results, schema).encode(),
        "comparison.html": comparison_html(title, results, schema, picture).encode(),
    }
    write_all(folder, contents)


def about(subject: Subject, seeds: range) -> str:
    drawn = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    return f"{len(subject.x):,} {subject.split} images, {drawn}"


def write_all(folder: Path, contents: dict[str, bytes]) -> None:
    try:
        for name, content in contents.items():
            write(folder / name, content)
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror or error}") from error
    print(f"wrote {', '.join(contents)} into {folder}")


if __name__ == "__main__":
    sys.exit(main())
