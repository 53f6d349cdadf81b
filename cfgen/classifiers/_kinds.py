"""The words that say what a classifier is, takes and returns; light to import."""

from __future__ import annotations

from typing import Literal, get_args

__all__ = ["KINDS", "LAYOUTS", "OUTPUTS", "Layout", "Output"]

Output = Literal["logit", "multilabel", "probability", "class", "value"]
Layout = Literal["nchw", "nhwc"]
OUTPUTS: tuple[str, ...] = get_args(Output)
LAYOUTS: tuple[str, ...] = get_args(Layout)
KINDS = (
    "a cfgen run or its .ckpt file, MODULE:FUNCTION that returns an nn.Module, an ONNX file (.onnx), or a program saved by "
    "torch.export (.pt2)"
)
