"""`python -m cfgen.evaluate RUN`: scores a run on its whole test split, on one device, with a seed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from cfgen import figures
from cfgen.attributes import Binary
from cfgen.cli import one_line_errors
from cfgen.effectiveness import Comparison, compare, measurable, median_abs_errors
from cfgen.evaluation import cycles, label_accuracy, true_counterfactual_errors
from cfgen.evaluation.batches import BATCH
from cfgen.evaluation.truth import KnowsTruth
from cfgen.loading import CounterfactualModel, load, load_classifier, run_data, run_folder
from cfgen.metrics.fid import FID, fids
from cfgen.networks.features import feature_network, network_name
from cfgen.runs import write_atomically


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="cfgen evaluate",
        description="Scores a run on its test split: median absolute errors (Table 1) where attributes can be measured, distance "
        "from the true counterfactuals where they are known, reconstruction and FID (Table 2), label counterfactuals.",
    )
    parser.add_argument("run", help="a run folder, a checkpoint or an exported model")
    parser.add_argument("--classifier", help="a classifier's run that judges label counterfactuals (Appendix G)")
    parser.add_argument(
        "--fid",
        metavar="NETWORK",
        help="also the FID of generated images: inception, efficientnet_lite0 or module:callable",
    )
    parser.add_argument("--split", choices=["test", "val"], default="test", help="val while you choose settings")
    parser.add_argument("--images", type=int, help="the first so many images only; all by default")
    parser.add_argument("--seed", type=int, default=0, help="of the values asked for (default: 0)")
    options = parser.parse_args(arguments)
    return one_line_errors(lambda: evaluate(options))


def evaluate(options: argparse.Namespace) -> None:
    model = load(options.run)
    judge = load_classifier(options.classifier) if options.classifier else None
    network = feature_network(options.fid) if options.fid else None
    folder, data = run_folder(options.run), run_data(options.run)
    data.prepare_data()
    data.setup("test")
    x = data.images(options.split)[: options.images]
    columns = {name: column[: options.images] for name, column in data.columns(options.split).items()}
    mechanism = model.module
    metrics: dict[str, Any] = {}
    written = []
    if measurable(model.schema):
        comparisons = measured(model, x, columns, options.seed)
        errors = {key: metric.compute().item() for key, metric in median_abs_errors(iter(comparisons)).items()}
        metrics |= {f"median_abs_error/{do}/{j}": value for (do, j), value in errors.items()}
        written.append(folder / f"target_against_measured-{options.split}.png")
        figures.target_against_measured(comparisons).savefig(written[-1], dpi=160)
    if isinstance(data, KnowsTruth):
        metrics |= from_truth(mechanism, data, options, x, columns)
    metrics |= cycles(mechanism, x, columns, options.seed)
    if judge is not None:
        metrics |= label_accuracy(mechanism, judge, x, columns, options.seed)
    if network is not None:
        found = fids(FID(network), mechanism, model.scm, x, columns, seed=options.seed)
        metrics |= {f"fid_{network_name(options.fid)}/{name}": value.item() for name, value in found.items()}
    metrics |= {"images": len(x), "split": options.split, "seed": options.seed}
    report(model, metrics)
    text = json.dumps(metrics, indent=1)
    written.insert(0, folder / ("metrics.json" if options.split == "test" else "metrics-val.json"))
    write_atomically(written[0], lambda file: file.write(text.encode()))
    print(f"wrote {' and '.join(map(str, written))}")


def measured(model: CounterfactualModel, x: Tensor, columns: dict[str, Tensor], seed: int) -> list[Comparison]:
    kinds = len(measurable(model.schema))
    total = -(-len(x) // BATCH) * kinds * (kinds + 2)  # every attribute under do(), floor, untouched
    steps = compare(model.module, model.scm, x, columns, seed, batch_size=BATCH)
    return list(shown(steps, "counterfactuals", total))


def from_truth(mechanism: Any, data: Any, options: argparse.Namespace, x: Tensor, columns: Any) -> dict[str, float]:
    binary = [attribute for attribute in mechanism.scm.schema.attributes.values() if isinstance(attribute, Binary)]
    steps = true_counterfactual_errors(mechanism, data, options.split, x, columns, options.seed)
    sums: dict[str, float] = {}
    for part in shown(steps, "true counterfactuals", -(-len(x) // BATCH) * len(binary)):
        for name, value in part.items():
            sums[name] = sums.get(name, 0.0) + value / len(x)
    return sums


def shown(steps: Iterable[Any], what: str, total: int) -> Iterable[Any]:
    return track(steps, what, total=total, console=Console(stderr=True), transient=True)


def report(model: CounterfactualModel, metrics: dict[str, Any]) -> None:
    about = f"{metrics['images']:,} {metrics['split']} images, seed {metrics['seed']}"
    names = measurable(model.schema)
    if names:
        rows = [*(f"do({k})" for k in names), "untouched", "floor"]
        table = {do: [f"{metrics[f'median_abs_error/{do}/{j}']:.3f}" for j in names] for do in rows}
        show(f"Median absolute error, {about}", names, table)
    known = [name for name in model.schema.names if f"true_error/do({name})" in metrics]
    if known:
        kinds = {
            "do": "counterfactual",
            "effect": "its change",
            "untouched": "doing nothing",
            "changed": "share changed",
        }
        table = {k: [f"{metrics[f'true_error/{kind}({k})']:.3f}" for kind in kinds] for k in known}
        show(f"Distance from the true counterfactual (0 to 255), {about}", list(kinds.values()), table)
    for name, value in metrics.items():
        if isinstance(value, float) and not name.startswith(("median", "true_error")):
            print(f"{name:28s} {value:.5f}")


def show(title: str, columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> None:
    table = Table(title=title)
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    for name, cells in rows.items():
        table.add_row(name, *cells, style="dim" if name in ("untouched", "floor") else "")
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
