"""Any image classifier as p(positive class | image): a cfgen run, a function of one's own, an exported program or ONNX."""

from __future__ import annotations

import importlib
import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from cfgen.attributes import unknown_name
from cfgen.audit.classifiers.exported_program import load_exported
from cfgen.errors import UserError
from cfgen.runs.loading import load_classifier
from lightning_modules import Classifier

__all__ = ["LAYOUTS", "OUTPUTS", "ExternalClassifier", "load_network"]

OUTPUTS = ("logit", "multilabel", "probability", "class")
LAYOUTS = ("nchw", "nhwc")
KINDS = (
    "a cfgen run or its .ckpt, MODULE:FUNCTION that returns an nn.Module, a program saved by torch.export (.pt2) or an "
    "ONNX file (.onnx)"
)
SCALE = "are --mean and --std what it takes?"


class ExternalClassifier(nn.Module):
    """Images (N, C, H, W) in [0, 1] -> the probability of the positive class, (N,).

    Args:
        network: what is to be asked; it is put into evaluation mode.
        resize: height and width it takes, or None for the images' own.
        mean, std: of each channel (or one for all), subtracted and divided by after resizing.
        layout: "nchw", or "nhwc" for channels last.
        output: what the network returns.  "logit" and "probability" are (N,), (N, 1) or one for each class, (N, classes), of
            which one is true; "multilabel" is a logit for each label, (N, labels), of which any may be true; "class" is the
            number of the class, (N,).  From "class" the probability is 0 or 1.
        positive: the class or label whose probability is asked for; 1 of two classes and the only label where not given.
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
        return self.read(self.ask(x))

    def ask(self, x: Tensor) -> Tensor:
        """What the network returns for images: (N,), or (N, columns) where there are several."""
        rows = len(x)
        if rows == 1:  # as a pair: of one image alone, a network that ends in squeeze() drops the batch as well
            x = torch.cat([x, x])
        found = self.network(self.prepare(x))
        if isinstance(found, (tuple, list)) and found:
            found = found[0]
        if not isinstance(found, Tensor) or found.shape[:1] != (len(x),) or found.ndim > 2:
            what = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise UserError(f"the classifier returns {what} for {len(x)} images; (N,) or (N, classes) is expected")
        found = found[:rows]
        return found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found

    def prepare(self, x: Tensor) -> Tensor:
        """Images as the network takes them."""
        if self.resize is not None and x.shape[2:] != self.resize:
            x = nn.functional.interpolate(x, self.resize, mode="bilinear", antialias=True, align_corners=False)
        mean, std = self.get_buffer("mean"), self.get_buffer("std")
        if mean.shape[1] not in (1, x.shape[1]) or std.shape[1] not in (1, x.shape[1]):
            raise UserError(f"mean and std have one number, or one for each of the {x.shape[1]} channels")
        x = (x - mean) / std
        return x.permute(0, 2, 3, 1) if self.layout == "nhwc" else x

    def read(self, found: Tensor) -> Tensor:
        """p(positive class) of each image from what the network returned."""
        p = self.probability(found)
        answered = (p >= 0) & (p <= 1)  # not so for NaN
        if not answered.all():
            wrong = (found if found.ndim == 1 else p)[~answered][0].item()
            if self.output == "class":
                raise UserError(
                    f"a class is a whole number, and the classifier returns {wrong:.4g}: is it --output logit or probability?"
                )
            if not math.isfinite(wrong):
                raise UserError(f"the classifier returns {wrong}: {SCALE}")
            raise UserError(f"the classifier returns {wrong:.4g}, which is no probability: is it --output logit?")
        return p

    def probability(self, found: Tensor) -> Tensor:
        """What the network returned as p(positive class); NaN where it is no class."""
        if self.output == "class":
            if found.ndim != 1:
                hint = ": is it --output logit?" if found.is_floating_point() else ""
                raise UserError(f"a class for each image is (N,), not {tuple(found.shape)}{hint}")
            p = (found == (1 if self.positive is None else self.positive)).float()
            return p.masked_fill(found % 1 != 0, torch.nan) if found.is_floating_point() else p
        if not found.is_floating_point():
            raise UserError(
                f"the classifier returns whole numbers ({found.dtype}), which are no {self.output}: "
                "classes, one for each image, are --output class"
            )
        found = found.float()
        if self.output == "multilabel":
            columns = found.reshape(len(found), -1)
            return columns[:, self.column(columns.shape[1], needless=1)].sigmoid()
        if found.ndim == 1:
            if self.positive not in (None, 0, 1):
                raise UserError(f"the classifier has two classes: --positive is 0 or 1, not {self.positive}")
            p = found.sigmoid() if self.output == "logit" else found
            return 1 - p if self.positive == 0 else p
        column = self.column(found.shape[1], needless=2)
        return (found.softmax(dim=1) if self.output == "logit" else found)[:, column]

    def column(self, columns: int, needless: int) -> int:
        """The column asked for: with as many as `needless` it is the last where nothing is said."""
        positive = columns - 1 if self.positive is None and columns == needless else self.positive
        if positive is None or not 0 <= positive < columns:
            one_of = f"say --positive with one of 0 to {columns - 1}"
            if self.output == "multilabel":
                raise UserError(f"the classifier has {columns} labels: {one_of}")
            also = ", and --output multilabel if they do not exclude one another" if self.output == "logit" else ""
            raise UserError(f"the classifier has {columns} classes: {one_of}{also}")
        return positive

    @torch.inference_mode()
    def check(self, x: Tensor) -> None:
        """Asks about some images (64 tell enough), so that what does not fit is known before the work starts."""
        try:
            found = self.ask(x)
            p = self.read(found)
            self.check_kind(found)
            self.check_repeats(x, p)
        except UserError:
            raise
        except Exception as error:
            shape = tuple(self.prepare(x).shape)
            raise UserError(
                f"the classifier fails on images of shape {shape} ({type(error).__name__}: {error}). "
                "--resize, --layout, --mean and --std say what it takes"
            ) from error

    def check_kind(self, found: Tensor) -> None:
        """Refuses what is not of the kind said: a sigmoid makes something like a probability of any number."""
        if self.output == "class":
            return
        exclusive = self.output == "logit" and found.ndim == 2
        unusable = found[~(found.isfinite() | (found == -torch.inf) & exclusive)]  # -inf is how a class is left out
        if len(unusable):
            raise UserError(f"the classifier returns {unusable[0].item()}: {SCALE}")
        low, high = found.min().item(), found.max().item()
        within = low >= 0 and high <= 1
        if self.output == "probability" and not within:
            raise UserError(f"the classifier returns {low:.4g} to {high:.4g}: is it --output logit?")
        # cfgen's own return logits, which are near 0 where they are hardly trained
        if self.output == "probability" or isinstance(self.network, Classifier) or not within or low == high:
            return
        sums_to_one = exclusive and bool(((found.sum(dim=1) - 1).abs() < 0.02).all())
        # logits such as (0, logit) may lie there; one alone would always say yes, and of many none ever
        if sums_to_one or (len(found) >= 8 and not (exclusive and found.shape[1] == 2)):
            raise UserError(
                f"what the classifier returns for {len(found)} images lies in 0..1 ({low:.3g} to {high:.3g}): is it --output "
                "probability? If these are logits, return the pair (0, logit) from a function of your own"
            )

    def check_repeats(self, x: Tensor, p: Tensor) -> None:
        """Refuses answers that are not the images' own: by chance, or by the images asked together."""
        few = max(1, len(x) // 8)
        # rolled, as a network for so many images at a time would group the first ones as before; the second tolerance is
        # for networks in whole numbers that round by the largest number of the batch
        for images, before, when, tolerance in (
            (x, p, "when asked again", 1e-3),
            (x.roll(1, 0)[:few], p.roll(1)[:few], "beside other images", 1e-2),
        ):
            difference = (self(images) - before).abs().max().item()
            if difference > tolerance:
                raise UserError(
                    f"the classifier's answers differ for the same images {when}, by {difference:.2g} in probability. "
                    "Was it exported in training mode? Call .eval() before exporting"
                )


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
    except (Exception, SystemExit) as error:  # the module is the user's: it may do anything
        raise UserError(
            f"--classifier {what}: cannot import {module_name} ({type(error).__name__}: {error})"
        ) from error
    if not callable(function := getattr(module, name, None)):
        public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UserError(f"--classifier {what}: {unknown_name('function', name, public)}")
    try:
        network = function()
    except (Exception, SystemExit) as error:
        raise UserError(
            f"--classifier {what}: calling it without arguments fails ({type(error).__name__}: {error})"
        ) from error
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
            found = self.network(torch.cat([part, filler]))
            if self.size == 1 and found.shape[:1] != (1,):  # squeeze() dropped the batch
                found = found.unsqueeze(0)
            parts.append(found[: len(part)])
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
