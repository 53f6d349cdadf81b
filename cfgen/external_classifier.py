"""Any image classifier as p(positive class | image): a cfgen run, a function of one's own, an exported program or ONNX."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cfgen.attributes import unknown_name
from cfgen.errors import UserError
from cfgen.exported_program import load_exported
from cfgen.loading import load_classifier

__all__ = ["LAYOUTS", "OUTPUTS", "ExternalClassifier", "load_network"]

OUTPUTS = ("logit", "probability", "class")
LAYOUTS = ("nchw", "nhwc")
KINDS = (
    "a cfgen run or its .ckpt, MODULE:FUNCTION that returns an nn.Module, a program saved by torch.export (.pt2) or an "
    "ONNX file (.onnx)"
)


class ExternalClassifier(nn.Module):
    """Images (N, C, H, W) in [0, 1] -> the probability of the positive class, (N,).

    Args:
        network: what is to be asked; it is put into evaluation mode.
        resize: height and width it takes, or None for the images' own.
        mean, std: of each channel (or one for all), subtracted and divided by after resizing.
        layout: "nchw", or "nhwc" for channels last.
        output: what the network returns.  "logit" and "probability" are (N,), (N, 1) or one for each class, (N, classes);
            "class" is the number of the class, (N,).  From "class" the probability is 0 or 1.
        positive: the class whose probability is asked for; 1 of two classes where not given.
    """

    def __init__(
        self,
        network: nn.Module,
        resize: tuple[int, int] | None = None,
        mean: Sequence[float] = (0.0,),
        std: Sequence[float] = (1.0,),
        layout: str = "nchw",
        output: str = "logit",
        positive: int | None = None,
    ) -> None:
        super().__init__()
        for kind, name, valid in (("layout", layout, LAYOUTS), ("output", output, OUTPUTS)):
            if name not in valid:
                raise UserError(unknown_name(kind, name, valid))
        if not all(deviation > 0 for deviation in std):
            raise UserError("std is above 0 for every channel")
        self.network = network.eval().requires_grad_(False)
        self.resize, self.layout, self.output, self.positive = resize, layout, output, positive
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).reshape(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).reshape(1, -1, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        p = self.read(self.network(self.prepare(x)), len(x))
        if not ((p >= 0) & (p <= 1)).all():
            wrong = p[~((p >= 0) & (p <= 1))][0].item()
            raise UserError(
                f"the classifier's {self.output} gives {wrong:.4g}, which is no probability: is it a logit?"
            )
        return p

    def prepare(self, x: Tensor) -> Tensor:
        """Images as the network takes them."""
        if self.resize is not None and x.shape[2:] != self.resize:
            x = nn.functional.interpolate(x, self.resize, mode="bilinear", antialias=True, align_corners=False)
        mean, std = self.get_buffer("mean"), self.get_buffer("std")
        if mean.shape[1] not in (1, x.shape[1]) or std.shape[1] not in (1, x.shape[1]):
            raise UserError(f"mean and std have one number, or one for each of the {x.shape[1]} channels")
        x = (x - mean) / std
        return x.permute(0, 2, 3, 1) if self.layout == "nhwc" else x

    def read(self, found: Any, rows: int) -> Tensor:
        """p(positive class) of each image from what the network returned."""
        if isinstance(found, (tuple, list)) and found:
            found = found[0]
        if not isinstance(found, Tensor) or found.shape[:1] != (rows,) or found.ndim > 2:
            what = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise UserError(f"the classifier returns {what} for {rows} images; (N,) or (N, classes) is expected")
        if found.ndim == 2 and found.shape[1] == 1:
            found = found[:, 0]
        if self.output == "class":
            if found.ndim != 1:
                raise UserError(f"a class for each image is (N,), not {tuple(found.shape)}: is it --output logit?")
            return (found == (1 if self.positive is None else self.positive)).float()
        if found.ndim == 1:
            p = found.float().sigmoid() if self.output == "logit" else found.float()
            if self.positive not in (None, 0, 1):
                raise UserError(f"the classifier has two classes: --positive is 0 or 1, not {self.positive}")
            return 1 - p if self.positive == 0 else p
        classes = found.shape[1]
        positive = self.positive if self.positive is not None or classes > 2 else 1
        if positive is None or not 0 <= positive < classes:
            raise UserError(f"the classifier has {classes} classes: say --positive with one of 0 to {classes - 1}")
        return (found.float().softmax(dim=1) if self.output == "logit" else found.float())[:, positive]

    @torch.inference_mode()
    def check(self, x: Tensor) -> None:
        """Asks about a few images, so that what does not fit is known before the work starts."""
        try:
            self(x)
        except UserError:
            raise
        except Exception as error:
            shape = tuple(self.prepare(x).shape)
            raise UserError(
                f"the classifier fails on images of shape {shape} ({type(error).__name__}: {error}). "
                "--resize, --layout, --mean and --std say what it takes"
            ) from error


def load_network(what: str) -> nn.Module:
    """The classifier named on a command line.  Only MODULE:FUNCTION runs code of the user's; files are read as data."""
    path = Path(what)
    if not path.exists() and re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", what):
        return from_function(what)
    if not path.exists():
        raise UserError(f"no classifier at {what}: give {KINDS}")
    if path.is_dir() or path.suffix == ".ckpt":
        return load_classifier(path)
    if path.suffix == ".onnx":
        network: nn.Module = ONNXClassifier(path)
    elif path.suffix == ".pt2":
        network = load_exported(path)
    else:
        raise UserError(
            f"{path} is not read: a pickled model can run code. Give {KINDS}; a function of yours may load it if you trust it"
        )
    size = network.batch_size
    return FixedBatch(network, size) if isinstance(size, int) else network


def from_function(what: str) -> nn.Module:
    """`package.module:function`, imported from the working directory or from what is installed, and called."""
    module_name, _, name = what.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise UserError(f"--classifier {what}: cannot import {module_name} ({error})") from error
    if not callable(function := getattr(module, name, None)):
        public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UserError(f"--classifier {what}: {unknown_name('function', name, public)}")
    network = function()
    if not isinstance(network, nn.Module):
        raise UserError(f"--classifier {what}: the function returns {type(network).__name__}, not an nn.Module")
    return network


class FixedBatch(nn.Module):
    """A network that takes so many images at a time and no other number."""

    def __init__(self, network: nn.Module, size: int) -> None:
        super().__init__()
        self.network, self.size = network, size

    def forward(self, x: Tensor) -> Tensor:
        parts = []
        for part in x.split(self.size):
            filler = part[-1:].expand(self.size - len(part), *part.shape[1:])
            parts.append(self.network(torch.cat([part, filler]))[: len(part)])
        return torch.cat(parts)


class ONNXClassifier(nn.Module):
    """An ONNX file, run by onnxruntime on the CPU; its first output is the answer."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        try:
            import onnxruntime
        except ImportError:
            raise UserError("an ONNX classifier needs onnxruntime: pip install 'cfgen[onnx]'") from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3
        try:
            self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has a class for each way a file can be wrong
            raise UserError(f"{path} is not an ONNX model ({' '.join(str(error).split())})") from error
        if len(self.session.get_inputs()) != 1:
            raise UserError(f"{path}: a classifier takes one batch of images and nothing else")
        (self.input,) = self.session.get_inputs()
        kinds = {"tensor(float)": torch.float32, "tensor(float16)": torch.float16, "tensor(double)": torch.float64}
        if self.input.type not in kinds:
            raise UserError(f"{path} takes {self.input.type}, not images as numbers with a fraction")
        self.dtype = kinds[self.input.type]
        first = self.input.shape[0] if self.input.shape else None
        self.batch_size = first if isinstance(first, int) else None

    def forward(self, x: Tensor) -> Tensor:
        pixels = x.detach().to("cpu", self.dtype).contiguous().numpy()
        return torch.from_numpy(self.session.run(None, {self.input.name: pixels})[0]).to(x.device)
