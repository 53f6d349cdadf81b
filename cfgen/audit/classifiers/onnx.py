"""ONNX files as classifiers: read as data, so a stranger's file runs no code."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from cfgen.errors import UserError

__all__ = ["ONNXClassifier"]


class ONNXClassifier(nn.Module):
    """An ONNX file, run by onnxruntime on the CPU; its first output is the answer.

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
