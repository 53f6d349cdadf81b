"""`python -m cfgen.audit --generator RUN --classifier WHAT --do Black_Hair=1,Pale_Skin=1`: is a classifier biased?"""

from __future__ import annotations

import argparse
import contextlib
import logging
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities import rank_zero_only
from pytorch_lightning.utilities.exceptions import MisconfigurationException
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from torch import Tensor

from cfgen.attributes import Binary, Continuous, Schema, unknown_name
from cfgen.audit.classifiers.external import KINDS, LAYOUTS, OUTPUTS, ExternalClassifier, load_network
from cfgen.audit.facts import facts
from cfgen.audit.folder import new_folder, write_folder
from cfgen.audit.label import question
from cfgen.audit.quality import warnings
from cfgen.audit.results import EVERYONE, BiasRow, findings
from cfgen.audit.run import Audit, Images, KnowsTruth, Plan, readable
from cfgen.counterfactual import as_unit_float
from cfgen.errors import UserError
from cfgen.interventions import parse_assignments
from cfgen.option_types import count, natural
from cfgen.progress import progress
from cfgen.runs.loading import load, load_reader, results_folder, run_data
from cfgen.training.cli import one_line_errors
from lightning_modules import AttributeReader, ImageMechanismModule

EPILOG = """examples:
  cfgen audit --generator runs/faces_ali --classifier runs/faces_classifier --do Black_Hair=1,Pale_Skin=1 --do Young=0
  cfgen audit --generator runs/celeba_csali --classifier my_models:resnet --resize 224 \\
      --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --do Bangs=1 --among Young=0
  cfgen audit --generator runs/celeba_csali --classifier theirs.onnx --layout nhwc --output probability --do Pale_Skin=1
"""
CHECKED = 64  # images that a classifier is tried on before the work starts


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    options = parser().parse_args(words)
    return one_line_errors(lambda: audit(options, f"cfgen audit {shlex.join(words)}"))


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cfgen audit",
        description="Bias of a classifier from counterfactual images (Section 4), as a folder with a report.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--generator", required=True, metavar="RUN", help="the run, checkpoint or exported model that makes the images")
    add("--classifier", required=True, metavar="WHAT", help=KINDS)
    add("--do", action="append", required=True, metavar="ATTRIBUTE=VALUE[,...]",
        help="an intervention; commas join simultaneous ones. Only images that are not so already are counted")  # fmt: skip
    add("--among", action="append", default=[], metavar="ATTRIBUTE=VALUE[,...]",
        help="also the bias among these images alone, beside that among all")  # fmt: skip
    add("--explain", default="all", metavar="ATTRIBUTES",
        help="binary attributes to rank by importance: all (the default), none, or names joined by commas")  # fmt: skip
    add("--explain_images", type=count, default=1000, metavar="N",
        help="rank them on the first N images (default: 1000): each attribute costs one more image made for each")  # fmt: skip
    add("--keep_residual", action="store_true",
        help="add what the reconstruction lost to every image made: the base image is then the image itself, and a generator "
        "that blurs is closer to the truth")  # fmt: skip
    add("--reader", metavar="RUN",
        help="a run of AttributeReader: in how many of the images made does it see what was asked for?")  # fmt: skip
    reading = parser.add_argument_group("what the classifier takes and returns")
    add = reading.add_argument
    add("--resize", type=size, metavar="H[xW]", help="pixels it takes; the generator's own by default")
    add("--mean", type=numbers, default=(0.0,), metavar="M[,...]", help="subtracted, a channel each or one for all")
    add("--std", type=numbers, default=(1.0,), metavar="S[,...]",
        help="divided by; images are in 0..1, so 0.003921569 gives 0..255")  # fmt: skip
    add("--layout", choices=LAYOUTS, default="nchw", help="nhwc: channels last")
    add("--output", choices=OUTPUTS, default="logit",
        help="what it returns (default: logit). logit: of yes, or one for each of several classes that exclude one another; "
        "multilabel: a logit for each of several independent labels; probability: of yes, or one for each class or label; "
        "class: the number of the class")  # fmt: skip
    add("--positive", type=int, metavar="CLASS",
        help="the class that counts as yes, or the column of the label with multilabel; needed where there are more than two "
        "classes or more than one label")  # fmt: skip
    add("--threshold", type=float, default=0.5, metavar="P", help="yes above this probability (default: 0.5)")
    add("--label", metavar="NAME",
        help="what yes means; the answers are compared with the data's own where it has a target or an attribute of that "
        "name. By default what a cfgen run was trained to answer")  # fmt: skip
    running = parser.add_argument_group("running")
    add = running.add_argument
    add("--split", choices=["test", "val"], default="test", help="of the generator's data (default: test)")
    add("--images", type=count, metavar="N", help="the first N images only; all by default")
    add("--batch_size", type=count, default=100, metavar="N", help="images at a time (default: 100)")
    add("--seed", type=natural, default=0, help="of the noise abducted, the intervals and the examples (default: 0)")
    add("--accelerator", default="auto", help="Lightning's: auto, cpu, gpu, ...")
    add("--devices", default="1", help="Lightning's: how many, or which (default: 1)")
    add("--out", metavar="DIR", help="a new folder; by default the next free RUN/audits/NNN")
    return parser


def audit(options: argparse.Namespace, command: str) -> None:
    started = time.time()
    model = load(options.generator)
    schema = model.schema
    do = {text: checked(schema, parse_assignments(text)) for text in options.do}
    cohorts = {text: cohort(schema, parse_assignments(text)) for text in options.among}
    if not 0 < options.threshold < 1:
        raise UserError(f"--threshold is a probability between 0 and 1, not {options.threshold}")
    plan = Plan(
        do, explained(schema, options.explain), options.explain_images, options.seed, options.batch_size,
        options.keep_residual,
    )  # fmt: skip
    classifier = ExternalClassifier(
        load_network(options.classifier), options.resize, options.mean, options.std, options.layout, options.output,
        options.positive,
    )  # fmt: skip
    reader = fitting_reader(options.reader, model.module, plan) if options.reader else None
    first_process = rank_zero_only.rank == 0  # type: ignore[attr-defined]  # set by Lightning at import
    if first_process and options.out and Path(options.out).exists():
        raise UserError(f"{options.out} exists already: --out takes a new folder")
    data = run_data(options.generator)
    data.prepare_data()
    data.setup("test")
    images = Images(
        x=data.images(options.split)[: options.images],
        columns={name: column[: options.images] for name, column in data.columns(options.split).items()},
        split=options.split,
        truth=data if isinstance(data, KnowsTruth) else None,
    )
    members = {EVERYONE: torch.ones(len(images.x), dtype=torch.bool)}
    members |= {text: mask(images.columns, values) for text, values in cohorts.items()}
    label, answers = question(data, options.split, options.classifier, options.label, options.positive)
    labels = None if answers is None else answers[: options.images]
    classifier.check(as_unit_float(images.x[:CHECKED]))
    trainer = quiet_trainer(options.accelerator, options.devices)
    with contextlib.ExitStack() as stack:
        advance = stack.enter_context(progress("auditing", len(images.x))) if first_process else lambda n: None
        auditor = Audit(model.module, classifier, images, plan, advance, reader)
        require_work(auditor, members)
        if first_process:
            folder = stack.enter_context(new_folder(results_folder(options.generator), options.out))
        trainer.predict(auditor, return_predictions=False)
        if not first_process:
            return
        found = findings(auditor.scores, images.columns, plan, members, options.threshold, labels=labels)
        known = facts(command, options, auditor, trainer, time.time() - started)
        write_folder(folder, auditor, found, known, label, options.threshold)
    show(found.bias, label)
    if labels is not None:
        print(f"right about {label}, as the data has it: {found.accuracy:.1%} of {found.images:,} images")
    if found.truths:
        print("true bias within the interval: {} of {}".format(*found.truths))
    for warning in warnings(found, plan):
        print(f"careful: {warning}")
    print(f"report: {folder / 'report.html'}")


def quiet_trainer(accelerator: str, devices: str) -> pl.Trainer:
    logging.getLogger("pytorch_lightning.utilities.rank_zero").setLevel(logging.WARNING)
    try:
        return pl.Trainer(
            accelerator=accelerator,
            devices=int(devices) if devices.lstrip("-").isdigit() else devices,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,  # it would repeat images until all devices have equally many
        )
    except (TypeError, ValueError, MisconfigurationException) as error:
        raise UserError(f"--accelerator {accelerator} --devices {devices}: {error}") from error


def checked(schema: Schema, do: dict[str, Any]) -> dict[str, Any]:
    try:
        schema.check_do(do)
    except ValueError as error:
        raise UserError(str(error)) from error
    return do


def cohort(schema: Schema, values: dict[str, Any]) -> dict[str, Tensor]:
    checked(schema, values)
    for name in values:
        if isinstance(schema[name], Continuous):
            raise UserError(f"--among takes binary and categorical attributes; {name} is continuous")
    return schema.check_do(values)


def mask(columns: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> Tensor:
    return torch.stack([columns[name] == value for name, value in values.items()]).all(dim=0)


def explained(schema: Schema, wanted: str) -> list[str]:
    binary = [name for name, attribute in schema.attributes.items() if isinstance(attribute, Binary)]
    if wanted in ("all", "none"):
        return binary if wanted == "all" else []
    names = [name.strip() for name in wanted.split(",")]
    for name in names:
        if name not in binary:
            raise UserError(f"--explain: {unknown_name('binary attribute', name, binary)}")
    return names


def require_work(auditor: Audit, members: Mapping[str, Tensor]) -> None:
    """Refuses a cohort without images, an intervention that changes none, and a cohort that no intervention changes."""
    for among, chosen in members.items():
        if not chosen.any():
            raise UserError(f"--among {among}: none of the {len(chosen)} images is so")
    every = torch.arange(len(auditor.images.x))
    changed = {name: auditor.changed(name, every) for name in auditor.plan.do}
    for name, which in changed.items():
        if not which.any():
            raise UserError(f"--do {name}: all {len(every)} images are so already, there is nothing to change")
    for among, chosen in members.items():
        if not any((which & chosen).any() for which in changed.values()):
            raise UserError(f"--among {among}: no --do changes any of these {chosen.sum()} images, they are so already")


def fitting_reader(run: str, mechanism: ImageMechanismModule, plan: Plan) -> AttributeReader:
    """The reader, if it can read the generator's images and something that is asked of them."""
    reader = load_reader(run)
    if reader.image_shape != tuple(mechanism.image_shape):
        theirs, ours = reader.image_shape, tuple(mechanism.image_shape)
        raise UserError(f"--reader sees images of shape {theirs}, and the generator makes images of shape {ours}")
    if not readable(mechanism.scm.schema, reader.schema, plan):
        known = ", ".join(name for name in reader.schema.names if name not in reader.schema.continuous) or "nothing"
        raise UserError(f"--reader {run} decides {known}: it can judge no --do of these")
    return reader


def show(rows: Sequence[BiasRow], label: str) -> None:
    for among in dict.fromkeys(row.among for row in rows):
        cohort = "" if among == EVERYONE else f", among {among}"
        table = Table(title=f"Bias towards {label}{cohort}", box=SIMPLE_HEAD, title_justify="left")
        table.add_column("change", overflow="fold")
        for head in ("images", "to yes", "to no", "bias", "95 %"):
            table.add_column(head, justify="right", no_wrap=True)
        for row in rows:
            if row.among != among or not row.n:
                continue
            v = row.values
            interval = f"{v['bias/low']:+.3f} {v['bias/high']:+.3f}"
            style = "bold" if v["significant"] else "" if row.do else "dim"
            shares = (f"{v[key]:.3f}" for key in ("up", "down"))
            table.add_row(row.change, f"{row.n:,}", *shares, f"{v['bias']:+.3f}", interval, style=style)
        Console().print(table)


def size(text: str) -> tuple[int, int]:
    height, _, width = text.partition("x")
    return count(height), count(width or height)


def numbers(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
