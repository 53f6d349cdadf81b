"""`python -m cfgen.evaluate RUN`: scores a run on its whole test split, on one device, with a seed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from cfgen import figures
from cfgen.attributes import Categorical
from cfgen.cli import one_line_errors
from cfgen.counterfactual import as_unit_float
from cfgen.effectiveness import Comparison, compare, measurable, median_abs_errors
from cfgen.errors import UserError
from cfgen.loading import CounterfactualModel, load, load_classifier, run_data, run_folder
from cfgen.runs import write_atomically

BATCH = 250


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="cfgen evaluate",
        description="Scores a run on its test split: median absolute errors (Table 1), reconstruction, label counterfactuals.",
    )
    parser.add_argument("run", help="a run folder, a checkpoint or an exported model")
    parser.add_argument("--classifier", help="a classifier's run that judges label counterfactuals (Appendix G)")
    parser.add_argument("--split", choices=["test", "val"], default="test", help="val while you choose settings")
    parser.add_argument("--images", type=int, help="the first so many images only; all by default")
    parser.add_argument("--seed", type=int, default=0, help="of the values asked for (default: 0)")
    options = parser.parse_args(arguments)
    return one_line_errors(lambda: evaluate(options))


def evaluate(options: argparse.Namespace) -> None:
    model = load(options.run)
    if not measurable(model.schema):
        raise UserError(
            f"this run has no attribute that can be measured on an image; it has {', '.join(model.schema.names)}"
        )
    judge = load_classifier(options.classifier) if options.classifier else None
    folder = run_folder(options.run)
    data = run_data(options.run)
    data.prepare_data()
    data.setup("test")
    x = data.images(options.split)[: options.images]
    columns = {name: column[: options.images] for name, column in data.columns(options.split).items()}
    kinds = len(measurable(model.schema))
    total = len(torch.arange(len(x)).split(BATCH)) * kinds * (kinds + 2)  # every attribute under do(), floor, untouched
    steps = compare(model.module, model.scm, x, columns, options.seed, batch_size=BATCH)
    bar = track(steps, "counterfactuals", total=total, console=Console(stderr=True), transient=True)
    comparisons: list[Comparison] = list(bar)
    errors = {key: metric.compute().item() for key, metric in median_abs_errors(iter(comparisons)).items()}
    metrics: dict[str, Any] = {f"median_abs_error/{do}/{j}": value for (do, j), value in errors.items()}
    metrics |= reconstruction(model, x, columns)
    if judge is not None:
        metrics |= label_accuracy(model, judge, x, columns, options.seed)
    metrics |= {"images": len(x), "split": options.split, "seed": options.seed}
    report(model, metrics, errors)
    stem = "metrics" if options.split == "test" else "metrics-val"
    text = json.dumps(metrics, indent=1)
    write_atomically(folder / f"{stem}.json", lambda file: file.write(text.encode()))
    figures.target_against_measured(comparisons).savefig(
        folder / f"target_against_measured-{options.split}.png", dpi=160
    )
    print(f"wrote {folder / stem}.json and {folder}/target_against_measured-{options.split}.png")


def batches(
    model: CounterfactualModel, x: Tensor, columns: dict[str, Tensor], size: int = BATCH
) -> Iterator[tuple[Tensor, Tensor]]:
    """Images in [0, 1] and their attribute vectors, a batch at a time."""
    a = model.schema.encode(columns)
    for rows in torch.arange(len(x)).split(size):
        yield as_unit_float(x[rows]), a[rows]


@torch.inference_mode()
def reconstruction(model: CounterfactualModel, x: Tensor, columns: dict[str, Tensor]) -> dict[str, float]:
    """MSE(x, x_r) (Table 2) and composition: mean |x - x_r| in 0..255 after 1 and 10 null interventions."""
    squared = one = ten = 0.0
    for images, a in batches(model, x, columns):
        current = images
        for cycle in range(10):
            current = model.module.decode(model.module.abduct(current, a), a)
            if cycle == 0:
                squared += (current - images).square().mean((1, 2, 3)).sum().item()
                one += (current - images).abs().mean((1, 2, 3)).sum().item()
        ten += (current - images).abs().mean((1, 2, 3)).sum().item()
    return {
        "mse_x": squared / len(x),
        "composition_l1/1": 255 * one / len(x),
        "composition_l1/10": 255 * ten / len(x),
    }


@torch.inference_mode()
def label_accuracy(
    model: CounterfactualModel, judge: Any, x: Tensor, columns: dict[str, Tensor], seed: int
) -> dict[str, float]:
    """Appendix G: how often the classifier sees the label that was asked for, each image asked for another than its own."""
    names = [name for name, attribute in model.schema.attributes.items() if isinstance(attribute, Categorical)]
    if len(names) != 1:
        raise UserError(
            "--classifier judges the one categorical attribute of a run; this run has another number of them"
        )
    (name,) = names
    values = model.schema[name].size
    generator = torch.Generator().manual_seed(seed)
    own = columns[name].long()
    asked = (own + torch.randint(1, values, (len(x),), generator=generator)) % values
    right = on_real = done = 0
    for images, a in batches(model, x, columns):
        rows = slice(done, done + len(images))
        a_c = model.scm.counterfactual_vector(a, {name: asked[rows]})
        x_c = model.module.decode(model.module.abduct(images, a), a_c)
        right += int((judge.predict(x_c) == asked[rows]).sum())
        on_real += int((judge.predict(images) == own[rows]).sum())
        done += len(images)
    return {f"accuracy/do({name})": right / len(x), "accuracy/real images": on_real / len(x)}


def report(model: CounterfactualModel, metrics: dict[str, Any], errors: dict[tuple[str, str], float]) -> None:
    names = measurable(model.schema)
    table = Table(
        title=f"Median absolute error, {metrics['images']:,} {metrics['split']} images, seed {metrics['seed']}"
    )
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right")
    for do in [*(f"do({k})" for k in names), "untouched", "floor"]:
        table.add_row(do, *(f"{errors[do, j]:.3f}" for j in names), style="" if do.startswith("do") else "dim")
    Console().print(table)
    for name, value in metrics.items():
        if isinstance(value, float) and not name.startswith("median"):
            print(f"{name:28s} {value:.5f}")


if __name__ == "__main__":
    sys.exit(main())
