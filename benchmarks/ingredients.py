"""What each ingredient of HVAE buys: the quickstart's recipe, and the same with one thing taken out or put in.

    OMP_NUM_THREADS=1 python -m benchmarks.ingredients --epochs 12 --out ingredients

Every variant is trained on the 4,000 embedded digits for the same number of steps and scored on the 500 validation digits; no
test image is used.  Writes a table (Markdown) and a picture of label counterfactuals, a row for each variant.  Needs no
download.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import cfgen
from cfgen.counterfactual import asked_of, sweep
from cfgen.figures import image_grid

# what differs from configs/quickstart.yaml
VARIANTS: dict[str, dict[str, Any]] = {
    "the recipe": {},
    "the ELBO alone": {"independence": 0, "counterfactual": 0, "adversary": 0},
    "z may tell the attributes": {"independence": 0},
    "no reader of counterfactuals": {"counterfactual": 0},
    "no critic": {"adversary": 0},
    "only one attribute changed at a time": {"joint": 0, "adversary": 0},
    "a state on a grid of 7x7 from the start": {"latents": {"7x7": 8}},
    "half the learning rate": {"lr": 1e-3},
    "noise kept everywhere": {"fade": 0},  # the recipe's weights: only `decode` differs
}
WITHOUT_TRAINING = "noise kept everywhere"
SCORES = {
    "do(thickness), pixels": "median_abs_error/do(thickness)/thickness",
    "do(intensity)": "median_abs_error/do(intensity)/intensity",
    "do(slant), radians": "median_abs_error/do(slant)/slant",
    "labels seen as asked": "accuracy/do(label)",
    "composition, network alone": "composition_l1/1/network",
}
SHOWN = 12  # digits of the picture, each asked for the next label


def trained(name: str, options: dict[str, Any], epochs: int, precision: str, runs: Path) -> Any:
    folder = runs / name.replace(" ", "_")
    if not folder.is_dir():
        trainer = {"max_epochs": epochs, "check_val_every_n_epoch": epochs, "enable_progress_bar": False}
        trainer |= {"precision": precision}
        cfgen.train("quickstart", name=folder.name, runs_dir=runs, model=options, trainer=trainer, tell=print)
    return cfgen.load(folder)


def scores_of(model: Any) -> list[str]:
    found = model.evaluate(metrics=["effectiveness", "labels", "cycles"], split="val").scores
    cells = [found[score].value for score in SCORES.values()]
    return [
        f"{100 * value:.1f} %" if "labels" in title else f"{value:.3g}"
        for title, value in zip(SCORES, cells, strict=True)
    ]


def next_labels(model: Any, data: Any) -> list[Any]:
    """The first validation digits, asked for the label after their own."""
    x, columns = data.images("val")[:SHOWN], {name: column[:SHOWN] for name, column in data.columns("val").items()}
    asked = {"next": asked_of(model.module, columns, {"label": (columns["label"] + 1) % 10})}
    (batch,) = sweep(model.module, x, columns, asked)
    return [list(batch.x), list(batch.x_c("next"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--precision", default="32-true", help="bf16-mixed is faster on a CPU that has AVX-512 BF16")
    parser.add_argument(
        "--out", type=Path, default=Path("ingredients"), help="a folder; finished trainings in it are used"
    )
    options = parser.parse_args()
    from cfgen.runs.data import run_data

    rows, images = [], []
    for name, changes in VARIANTS.items():
        source = "the recipe" if name == WITHOUT_TRAINING else name
        model = trained(source, VARIANTS[source], options.epochs, options.precision, options.out / "runs")
        model.module.fade = changes.get("fade", model.module.fade)
        rows.append([name, *scores_of(model)])
        data = run_data(options.out / "runs" / source.replace(" ", "_"))
        data.setup("fit")
        real, made = next_labels(model, data)
        images += [made] if images else [real, made]
        print(" | ".join(rows[-1]), flush=True)
    lines = [["", *SCORES], ["---"] * (len(SCORES) + 1), *rows]
    (options.out / "ingredients.md").write_text(
        "".join(f"| {' | '.join(line)} |\n" for line in lines), encoding="utf-8"
    )
    image_grid(images, rows=["validation digits", *VARIANTS]).savefig(options.out / "ingredients.png", dpi=160)


if __name__ == "__main__":
    main()
