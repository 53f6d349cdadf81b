"""Loads a network by its name: a cfgen run, MODULE:FUNCTION, an ONNX file or a program of torch.export."""

from __future__ import annotations

import importlib
import logging
import re
from pathlib import Path
from textwrap import shorten
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from cfgen.checkpoints import class_path, load_module
from cfgen.classifiers._kinds import KINDS
from cfgen.contracts import AnswersImages
from cfgen.errors import UserError, unknown_name
from cfgen.io.files import exists

__all__ = ["FixedBatch", "from_function", "load_network", "names_function"]


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
        return load_run(path, trusted)
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


def load_run(path: Path, trusted: bool) -> nn.Module:
    """The classifier of a run of cfgen."""
    try:
        module = load_module(path, pl.LightningModule, trusted)
    except UserError as error:
        raise UserError(str(error), argument="classifier") from error
    if not isinstance(module, AnswersImages):
        raise UserError(f"{path} is a {class_path(module)}, but a Classifier is needed here", argument="classifier")
    return module


def names_function(what: str | Path) -> bool:
    """Whether this is MODULE:FUNCTION, and not a file.

    >>> names_function("my_models:build"), names_function("runs/classifier")
    (True, False)
    """
    return not exists(Path(what)) and re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", str(what)) is not None


def from_function(what: str) -> nn.Module:
    """The network that `package.module:function` returns, called without arguments."""
    module_name, _, name = what.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # the module is the user's: it may do anything
        raise refused(f"{what}: {module_name} cannot be imported", error) from error
    if not callable(function := getattr(module, name, None)):
        public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UserError(f"{what}: {unknown_name('function', name, public)}", argument="classifier")
    try:
        network = function()
    except (Exception, SystemExit) as error:
        raise refused(f"{what}: calling it without arguments fails", error) from error
    if not isinstance(network, nn.Module):
        returned = type(network).__name__
        raise UserError(f"{what}: the function returns {returned}, and an nn.Module is expected", argument="classifier")
    return network


def refused(what: str, error: BaseException) -> UserError:
    reason = shorten(" ".join(str(error).split()), 300)
    return UserError(f"{what} ({type(error).__name__}: {reason})", argument="classifier")


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


class ONNXClassifier(nn.Module):
    """An ONNX file, run by onnxruntime on the CPU; its first output is the answer.  It is read as data and runs no code.

    `batch_size` is the number of images that it takes at a time, or None where any number is fine.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        try:
            import onnxruntime
        except ImportError:
            raise UserError(
                "an ONNX classifier needs the package onnxruntime: pip install 'cfgen[onnx]'", argument="classifier"
            ) from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3
        try:
            self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has a class for each way a file can be wrong
            reason = " ".join(str(error).split())
            raise UserError(f"{path} is not an ONNX model ({reason})", argument="classifier") from error
        inputs = self.session.get_inputs()
        if len(inputs) != 1:
            raise UserError(
                f"{path} takes {len(inputs)} inputs; a classifier takes one batch of images", argument="classifier"
            )
        (self.input,) = inputs
        kinds = {"tensor(float)": torch.float32, "tensor(float16)": torch.float16, "tensor(double)": torch.float64}
        if self.input.type not in kinds:
            raise UserError(
                f"{path} takes {self.input.type}; images are floating-point numbers ({', '.join(kinds)})",
                argument="classifier",
            )
        self.dtype = kinds[self.input.type]
        first = self.input.shape[0] if self.input.shape else None
        self.batch_size = first if isinstance(first, int) else None

    def forward(self, x: Tensor) -> Tensor:
        pixels = x.detach().to("cpu", self.dtype).contiguous().numpy()
        return torch.from_numpy(self.session.run(None, {self.input.name: pixels})[0]).to(x.device)
