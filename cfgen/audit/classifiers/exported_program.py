"""Programs of `torch.export` (.pt2 files) read as data: nothing in the file is unpickled, evaluated or compiled.

`torch.export.load` unpickles weights and example inputs, evaluates the text of shape expressions and guards, looks up any
function of `torch` by name and loads native libraries, all as the file says.  A file from a stranger may therefore do
anything.  Here the graph's JSON is walked instead: each node has to be an operator of ATen that touches no files, its
arguments numbers and tensors, and the weights raw bytes.
"""

from __future__ import annotations

import json
import math
import operator
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cfgen.errors import UserError

__all__ = ["ExportedClassifier", "load_exported"]

# arithmetic on sizes, which is written with Python's operators
_SIZES = ("add", "sub", "mul", "floordiv", "truediv", "mod", "neg", "eq", "ne", "lt", "le", "gt", "ge", "getitem")
_PLAIN = {"as_int": int, "as_bool": bool, "as_string": str, "as_ints": list, "as_bools": list}
_MAJOR = 8  # of the format's versions, the one that is read here


class _Node(NamedTuple):
    """One call: an operator, its arguments as the file has them, and the names its results get."""

    call: Any
    inputs: list[tuple[str, dict[str, Any], bool]]  # name, value, by position
    outputs: list[dict[str, Any]]
    done_with: list[str]  # what nothing after this node reads


class ExportedClassifier(nn.Module):
    """The graph of an exported program, run node by node.

    `batch_size` is the number of images it was exported for, or None where any number is fine.
    """

    def __init__(self, program: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        graph, signature = program["graph_module"]["graph"], program["graph_module"]["signature"]
        self._fixed: dict[str, str] = {}  # name in the graph -> name of the buffer
        self._inputs: list[str] = []
        for spec in signature["input_specs"]:
            (kind, value), *_ = spec.items()
            if kind in ("parameter", "buffer", "tensor_constant"):
                buffer = f"weight_{len(self._fixed)}"
                self.register_buffer(buffer, weights[value[f"{kind}_name"]])
                self._fixed[value["arg"]["name"]] = buffer
            elif kind == "user_input" and "as_tensor" in value["arg"]:
                self._inputs.append(value["arg"]["as_tensor"]["name"])
            else:
                raise UserError(f"it takes an input other than images ({kind})")
        outputs = [spec["user_output"]["arg"] for spec in signature["output_specs"] if "user_output" in spec]
        if len(self._inputs) != 1 or not outputs or "as_tensor" not in outputs[0]:
            raise UserError("a classifier takes one batch of images and returns a tensor")
        self._output = outputs[0]["as_tensor"]["name"]
        self._nodes = _nodes(graph["nodes"], keep={self._output})
        sizes = graph["tensor_values"][self._inputs[0]]["sizes"]
        self.batch_size: int | None = sizes[0].get("as_int")
        self._image = tuple(size.get("as_int") for size in sizes[1:])  # None where any size is fine

    def forward(self, x: Tensor) -> Tensor:
        given = tuple(x.shape[1:])
        sizes = [asked or side for asked, side in zip(self._image, given, strict=False)]
        if len(self._image) != len(given) or tuple(sizes) != given:  # many graphs would run on, and answer something
            made_for = ", ".join("any" if size is None else str(size) for size in self._image)
            raise UserError(
                f"the program was exported for images of shape (N, {made_for}), not (N, {', '.join(map(str, given))}): "
                "--resize and --layout say what it takes"
            )
        values: dict[str, Any] = {name: getattr(self, buffer) for name, buffer in self._fixed.items()}
        values[self._inputs[0]] = x
        for node in self._nodes:
            arguments = [(name, _value(value, values, x.device), first) for name, value, first in node.inputs]
            by_position = [value for _, value, first in arguments if first]
            result = node.call(*by_position, **{name: value for name, value, first in arguments if not first})
            _bind(node.outputs, result, values)
            for name in node.done_with:
                values.pop(name, None)
        return values[self._output]


def load_exported(path: Path) -> ExportedClassifier:
    """A program saved by `torch.export.save` with a current torch."""
    try:
        with zipfile.ZipFile(path) as archive:
            root = archive.namelist()[0].split("/")[0]
            if archive.read(f"{root}/archive_format") != b"pt2" or archive.read(f"{root}/byteorder") != b"little":
                raise UserError("it is another kind of archive")
            program = json.loads(archive.read(f"{root}/models/model.json"))
            if (major := program["schema_version"]["major"]) != _MAJOR:
                raise UserError(f"its format is version {major}, not {_MAJOR}: export it again with a current torch")
            weights = _tensors(archive, root, "weights", r"weight_\d+") | _tensors(
                archive, root, "constants", r"tensor_\d+"
            )
        return ExportedClassifier(program, weights)
    except Exception as error:  # whatever a torn or foreign file makes of itself
        reason = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        raise UserError(f"{path} is not an exported program that can be read safely ({reason})") from error


def _tensors(archive: zipfile.ZipFile, root: str, kind: str, allowed: str) -> dict[str, Tensor]:
    """The tensors of one folder, from raw bytes; anything pickled is refused unread."""
    config = json.loads(archive.read(f"{root}/data/{kind}/model_{kind}_config.json"))["config"]
    found: dict[str, Tensor] = {}
    for name, entry in config.items():
        if entry["use_pickle"] or not re.fullmatch(allowed, entry["path_name"]):
            raise UserError(f"{name} is pickled, and a pickle can run code")
        meta = entry["tensor_meta"]
        dtype = _dtype(meta["dtype"])
        sizes, strides = ([side["as_int"] for side in meta[key]] for key in ("sizes", "strides"))
        data = bytearray(archive.read(f"{root}/data/{kind}/{entry['path_name']}"))
        flat = torch.frombuffer(data, dtype=dtype) if data else torch.zeros(math.prod(sizes), dtype=dtype)
        # as_strided refuses what lies outside of the bytes
        found[name] = flat.as_strided(sizes, strides, meta["storage_offset"]["as_int"]).clone()
    return found


def _nodes(listed: list[dict[str, Any]], keep: set[str]) -> list[_Node]:
    """The graph's calls in order, each checked, with what may be forgotten after it."""
    nodes: list[_Node] = []
    needed = set(keep)
    for node in reversed(listed):
        inputs = [(entry["name"], entry["arg"], entry.get("kind") != 2) for entry in node["inputs"]]
        for _, value, _ in inputs:
            _check(value)
        mentioned = {name for part in [*(value for _, value, _ in inputs), *node["outputs"]] for name in _names(part)}
        nodes.append(_Node(_operator(node["target"]), inputs, node["outputs"], sorted(mentioned - needed)))
        needed |= mentioned
    return nodes[::-1]


def _operator(target: str) -> Any:
    if match := re.fullmatch(r"torch\.ops\.aten\.([A-Za-z]\w*|_[A-Za-z]\w*)\.([A-Za-z]\w*)", target):
        found = getattr(getattr(torch.ops.aten, match[1], None), match[2], None)
        if isinstance(found, torch._ops.OpOverload) and not any(a.name == "filename" for a in found._schema.arguments):
            return found
    if (match := re.fullmatch(r"_operator\.(\w+)", target)) and match[1] in _SIZES:
        return getattr(operator, match[1])
    raise UserError(f"it calls {target}, which is not an operator on tensors")


def _check(value: dict[str, Any]) -> None:
    """Refuses an argument of a kind that has no place in a classifier."""
    ((kind, content),) = value.items()
    if kind in _PLAIN and not isinstance(content, _PLAIN[kind]):
        raise UserError(f"an argument {content!r} is not what it says it is")
    if kind not in _PLAIN and kind not in _READ:
        raise UserError(f"an argument of kind {kind} is not supported")


def _names(value: Any) -> list[str]:
    """The graph's values that an argument mentions."""
    if isinstance(value, list):
        return [name for part in value for name in _names(part)]
    if isinstance(value, dict):
        own = [content for key, content in value.items() if key in ("name", "as_name") and isinstance(content, str)]
        return own + [name for part in value.values() for name in _names(part)]
    return []


def _one(value: dict[str, Any], values: Mapping[str, Any], plain: str) -> Any:
    """A number that is either known or the result of a node."""
    return values[value["as_name"]] if "as_name" in value else value[plain]


def _optional(value: dict[str, Any], values: Mapping[str, Any]) -> Any:
    return values[value["as_tensor"]["name"]] if "as_tensor" in value else None


_READ: dict[str, Any] = {
    "as_none": lambda v, values, device: None,
    "as_float": lambda v, values, device: float(v),  # infinities are written as text
    "as_floats": lambda v, values, device: [float(one) for one in v],
    "as_tensor": lambda v, values, device: values[v["name"]],
    "as_tensors": lambda v, values, device: [values[one["name"]] for one in v],
    "as_optional_tensor": lambda v, values, device: _optional(v, values),
    "as_optional_tensors": lambda v, values, device: [_optional(one, values) for one in v],
    "as_sym_int": lambda v, values, device: _one(v, values, "as_int"),
    "as_sym_ints": lambda v, values, device: [_one(one, values, "as_int") for one in v],
    "as_sym_float": lambda v, values, device: _one(v, values, "as_float"),
    "as_sym_bool": lambda v, values, device: _one(v, values, "as_bool"),
    "as_scalar_type": lambda v, values, device: _dtype(v),
    "as_memory_format": lambda v, values, device: _serialised("_SERIALIZE_TO_TORCH_MEMORY_FORMAT", v),
    "as_layout": lambda v, values, device: _serialised("_SERIALIZE_TO_TORCH_LAYOUT", v),
    "as_device": lambda v, values, device: device,  # where the images are, not where it was exported
}


def _value(value: dict[str, Any], values: Mapping[str, Any], device: torch.device) -> Any:
    ((kind, content),) = value.items()
    return content if kind in _PLAIN else _READ[kind](content, values, device)


def _bind(outputs: list[dict[str, Any]], result: Any, values: dict[str, Any]) -> None:
    results = [result] if len(outputs) == 1 else result
    for output, found in zip(outputs, results, strict=True):
        ((kind, content),) = output.items()
        if kind == "as_tensors":
            values.update({one["name"]: part for one, part in zip(content, found, strict=True)})
        elif kind != "as_none":
            values[content["name"] if kind == "as_tensor" else content["as_name"]] = found


def _dtype(number: int) -> torch.dtype:
    return _serialised("_SERIALIZE_TO_TORCH_DTYPE", number)


def _serialised(table: str, number: int) -> Any:
    """What a number of the format stands for; torch keeps these tables with its own reader."""
    from torch._export.serde import serialize

    return getattr(serialize, table)[number]
