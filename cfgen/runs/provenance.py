"""What a result is reproduced from: versions, the commit, and fingerprints of data and models."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import platform
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cfgen.io.checksums import sha256_of
from cfgen.io.files import exists

__all__ = ["data_fingerprint", "fingerprint", "git_commit", "versions"]

PACKAGES = ("cfgen", "torch", "pytorch-lightning", "torchmetrics", "numpy", "onnxruntime")
AT_ONCE = 1000  # images hashed


def git_commit() -> str | None:
    """The commit of the working directory, where it is a git checkout."""
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def versions() -> dict[str, str]:
    """Of Python and of the packages that numbers depend on, where they are installed."""
    known = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            known[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return known


def data_fingerprint(x: Tensor, columns: Mapping[str, Tensor]) -> str:
    """Of images and their attributes, whatever they are stored in."""
    digest = hashlib.sha256()
    for start in range(0, len(x), AT_ONCE):
        _update(digest, x[start : start + AT_ONCE])
    for name in sorted(columns):
        digest.update(name.encode())
        _update(digest, columns[name])
    return digest.hexdigest()


def fingerprint(what: str | Path | None, module: nn.Module) -> str:
    """Of the file that `what` names, where it is one; else of the module's weights, which is what a run stands for.

    Of `package.module:function` it is of the weights, the function's name and the source file it is in, for a network may
    have no weights at all.  What that file imports is not looked at.
    """
    if what is not None and exists(what) and Path(what).is_file():
        return sha256_of(Path(what))
    digest = hashlib.sha256()
    if what is not None and not exists(what) and ":" in str(what):
        module_name, _, function = str(what).partition(":")
        digest.update(function.encode())
        if source := inspect.getsourcefile(importlib.import_module(module_name)):
            digest.update(Path(source).read_bytes())
    for name, value in sorted(module.state_dict().items()):
        digest.update(name.encode())
        _update(digest, value)
    return digest.hexdigest()


def _update(digest: Any, values: Tensor) -> None:
    # a copy: one number alone may keep a stride that cannot be seen as bytes
    flat = values.detach().cpu().flatten().clone(memory_format=torch.contiguous_format)
    digest.update(flat.view(torch.uint8).numpy())
