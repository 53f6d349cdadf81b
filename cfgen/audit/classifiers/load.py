"""A classifier from its name: a cfgen run, a function, an ONNX file or a program of torch.export."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cfgen.audit.classifiers.onnx import ONNXClassifier
from cfgen.checkpoints import load_module
from cfgen.errors import UserError
from cfgen.external.functions import from_function, names_function, refused
from cfgen.external.kinds import KINDS
from cfgen.io.files import exists
from lightning_modules import Classifier

__all__ = ["ExportedClassifier", "FixedBatch", "load_network"]


def load_network(what: str | Path, trusted: bool = False) -> nn.Module:
    """The network that `what` names.

    Runs and ONNX files are read as data.  MODULE:FUNCTION runs the user's own code.  A `.pt2` file may run code of whoever
    wrote it, and a run may name a class that does not come with cfgen: these are taken only where `trusted`.
    """
    if not str(what):
        raise UserError(f"nothing is named; give {KINDS}", argument="classifier")
    path = Path(what)
    if names_function(what):
        return from_function(str(what))
    if not exists(path):
        raise UserError(f"there is no classifier at {what}; give {KINDS}", argument="classifier")
    if path.is_dir() or path.suffix == ".ckpt":
        try:
            return load_module(path, Classifier, trusted)
        except UserError as error:
            raise UserError(str(error), argument="classifier") from error
    if path.suffix == ".onnx":
        network: ONNXClassifier | ExportedClassifier = ONNXClassifier(path)
    elif path.suffix == ".pt2":
        network = load_exported(path, trusted)
    else:
        raise UserError(
            f"{path} is not a file that is read here, for a pickled model can run code; give {KINDS}. If you trust the file, "
            "load it in a function of your own",
            argument="classifier",
        )
    return network if network.batch_size is None else FixedBatch(network, network.batch_size)


def load_exported(path: Path, trusted: bool) -> ExportedClassifier:
    """A program that `torch.export.save` wrote, from a source that is trusted."""
    if not trusted:
        raise UserError(
            f"{path} was not read: a program of torch.export can run code from its file. Say that it is trusted if you know "
            "who made it, or use an ONNX file (.onnx), which is read as data",
            argument="classifier",
        )
    log = logging.getLogger("torch.export")
    level = log.level
    log.setLevel(logging.CRITICAL)  # torch logs a traceback of what becomes one line here
    try:
        return ExportedClassifier(torch.export.load(path))
    except UserError:
        raise
    except Exception as error:  # whatever a torn or foreign file makes of itself
        raise refused(f"{path} is not a program of torch.export", error) from error
    finally:
        log.setLevel(level)


class ExportedClassifier(nn.Module):
    """An exported program as a module; `batch_size` is the number of images it was exported for, or None where any is fine."""

    def __init__(self, program: Any) -> None:
        super().__init__()
        inputs = program.graph_signature.user_inputs
        shapes = [node.meta["val"].shape for node in program.graph.nodes if node.name in inputs]
        if len(shapes) != 1 or len(shapes[0]) != 4:
            raise UserError(
                f"the program takes {len(inputs)} inputs; a classifier takes one batch of images", argument="classifier"
            )
        first = shapes[0][0]
        self.batch_size = first if isinstance(first, int) else None
        self.program = program.module()

    def train(self, mode: bool = True) -> ExportedClassifier:
        """Nothing: whether a program trains was decided when it was exported, and torch refuses to change it."""
        return self

    def forward(self, x: Tensor) -> Tensor:
        return self.program(x)


class FixedBatch(nn.Module):
    """A network that takes so many images at a time and no other number."""

    def __init__(self, network: nn.Module, size: int) -> None:
        super().__init__()
        self.network, self.size = network, size

    def forward(self, x: Tensor) -> Tensor:
        parts = []
        for part in x.split(self.size):
            filler = part[-1:].expand(self.size - len(part), *part.shape[1:])
            output = self.network(torch.cat([part, filler]))
            if self.size == 1 and output.shape[:1] != (1,):  # squeeze() dropped the batch
                output = output.unsqueeze(0)
            parts.append(output[: len(part)])
        return torch.cat(parts)
