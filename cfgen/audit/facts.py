"""What an audit is reproduced from: command, versions, seed, and fingerprints of data, generator and classifier."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import inspect
import json
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from cfgen.audit.run import Audit, Images
from cfgen.runs.loading import run_folder
from cfgen.training.cli import git_commit
from lightning_modules import ResidualKept

__all__ = ["facts"]

PACKAGES = ("cfgen", "torch", "pytorch-lightning", "torchmetrics", "numpy", "onnxruntime")
AT_ONCE = 1000  # images hashed


def facts(
    command: str, options: argparse.Namespace, audit: Audit, trainer: pl.Trainer, seconds: float
) -> dict[str, Any]:
    """As audit.json has them; `generator_scores` are those that `cfgen evaluate` left in the generator's run."""
    # what is done with the residual does not make it another generator
    mechanism = audit.mechanism.mechanism if isinstance(audit.mechanism, ResidualKept) else audit.mechanism
    return {
        "command": command,
        "options": dict(sorted(vars(options).items())),
        "seed": options.seed,
        "data": {
            "split": options.split,
            "images": len(audit.images.x),
            "sha256": data_fingerprint(audit.images),
        },
        "generator": {
            "sha256": fingerprint(options.generator, mechanism),
            "graph": audit.mechanism.scm.graph.edges,
        },
        "classifier": {"sha256": fingerprint(options.classifier, audit.classifier)},
        "reader": None if audit.reader is None else {"sha256": fingerprint(options.reader, audit.reader)},
        "versions": {"python": platform.python_version()} | versions(),
        "git_commit": git_commit(),
        "device": f"{trainer.world_size} x {trainer.strategy.root_device.type}",
        "seconds": round(seconds, 1),
        "generator_scores": generator_scores(options.generator),
    }


def versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def generator_scores(run: str) -> dict[str, Any]:
    """What `cfgen evaluate` measured of the generator, where it was run."""
    try:
        return json.loads((run_folder(run) / "metrics.json").read_text())
    except (OSError, ValueError):
        return {}


def data_fingerprint(images: Images) -> str:
    """Of the audited images and their attributes, whatever they are stored in."""
    digest = hashlib.sha256()
    for start in range(0, len(images.x), AT_ONCE):
        update(digest, images.x[start : start + AT_ONCE])
    for name in sorted(images.columns):
        digest.update(name.encode())
        update(digest, images.columns[name])
    return digest.hexdigest()


def fingerprint(what: str, module: nn.Module) -> str:
    """Of the file, where it is one; else of the weights, which is what a run stands for.

    Of `package.module:function` it is of the weights, the function's name and the source file it is in, for a network may
    have no weights at all.  What that file imports is not looked at.
    """
    if Path(what).is_file():
        with Path(what).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    digest = hashlib.sha256()
    if not Path(what).exists() and ":" in what:
        module_name, _, function = what.partition(":")
        digest.update(function.encode())
        if source := inspect.getsourcefile(importlib.import_module(module_name)):
            digest.update(Path(source).read_bytes())
    for name, value in sorted(module.state_dict().items()):
        digest.update(name.encode())
        update(digest, value)
    return digest.hexdigest()


def update(digest: Any, values: Tensor) -> None:
    # a copy: one number alone may keep a stride that cannot be seen as bytes
    flat = values.detach().cpu().flatten().clone(memory_format=torch.contiguous_format)
    digest.update(flat.view(torch.uint8).numpy())
