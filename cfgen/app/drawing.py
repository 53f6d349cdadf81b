"""What the pages draw with: pictures as PNG, the difference of two, controls and the causal graph as plain values."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor

from cfgen.attributes import Binary, Categorical, Schema
from cfgen.runs.model import png_of
from cfgen.scm.graph import CausalGraph

__all__ = ["controls", "data_uri", "difference_map", "graph_levels", "picture_uri", "plain_row", "sweep_values"]

LEAST_SCALE = 0.05  # a difference below that is shown as small as it is
SWEEP = 9  # frames over the range of a continuous attribute
MOST_VALUES = 20  # of a categorical attribute in a strip
# the ends of the scale: blue for darker, red for brighter, which readers with any colour vision tell apart
DARKER, SAME, BRIGHTER = np.array([[33, 102, 172], [247, 247, 247], [178, 24, 43]], dtype=np.float32)


def data_uri(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def picture_uri(image: Tensor) -> str:
    """An image (C, H, W) in [0, 1] as the PNG file that `cfgen generate` writes, for a page."""
    return data_uri(png_of(image))


def difference_map(image: Tensor, base: Tensor) -> tuple[str, float]:
    """What is brighter (red) and darker (blue) than in `base`, and the scale: colours run from -scale to +scale.

    >>> import torch
    >>> difference_map(torch.full((1, 2, 2), 0.75), torch.full((1, 2, 2), 0.25))[1]
    0.5
    """
    change = (image.clamp(0, 1) - base.clamp(0, 1)).mean(dim=0).numpy()
    scale = max(float(np.abs(change).max()), LEAST_SCALE)
    share = (change / scale)[..., None]
    pixels = SAME + np.where(share < 0, -share * (DARKER - SAME), share * (BRIGHTER - SAME))
    file = io.BytesIO()
    Image.fromarray(pixels.round().astype(np.uint8)).save(file, "PNG", compress_level=1)  # a slider waits for it
    return data_uri(file.getvalue()), scale


def controls(schema: Schema, units: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """A control for each attribute, in real units; sliders stand at round numbers that lie within the range.

    >>> controls(Schema({"thickness": {"kind": "continuous", "low": 0.973, "high": 6.255}}))[0]
    {'name': 'thickness', 'unit': '', 'kind': 'continuous', 'low': 0.98, 'high': 6.25, 'step': 0.01, 'digits': 2}
    """
    found: list[dict[str, Any]] = []
    for name, attribute in schema.attributes.items():
        shared = {"name": name, "unit": (units or {}).get(name, "")}
        match attribute:
            case Binary():
                found.append({**shared, "kind": "binary"})
            case Categorical(values):
                found.append({**shared, "kind": "categorical", "values": list(values)})
            case _:
                low, high = schema.bounds(name)
                digits = max(0, 2 - math.floor(math.log10(high - low)))
                step = 10.0**-digits
                found.append(
                    {
                        **shared,
                        "kind": "continuous",
                        "low": round(math.ceil(round(low / step, 6)) * step, digits),
                        "high": round(math.floor(round(high / step, 6)) * step, digits),
                        "step": step,
                        "digits": digits,
                    }
                )
    return found


def sweep_values(control: Mapping[str, Any], frames: int = SWEEP) -> list[Any]:
    """The values of an attribute that a strip shows.

    >>> sweep_values({"kind": "continuous", "low": 0.0, "high": 4.0, "digits": 1})
    [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]
    """
    match control["kind"]:
        case "binary":
            return [0, 1]
        case "categorical":
            return list(control["values"][:MOST_VALUES])
        case _:
            values = np.linspace(control["low"], control["high"], frames)
            return [round(float(value), control["digits"]) for value in values]


def graph_levels(graph: CausalGraph) -> dict[str, Any]:
    """The causal graph as levels of names, causes above their effects, and its edges.

    >>> graph_levels(CausalGraph(["a", "b", "c"], [("c", "b")]))
    {'levels': [['c', 'a'], ['b']], 'edges': [('c', 'b')]}
    """
    depth: dict[str, int] = {}
    for name in graph.order:
        depth[name] = max((depth[parent] + 1 for parent in graph.parents[name]), default=0)
    # what has causes or effects stands first: a page that wraps a long level keeps these together
    order = sorted(graph.names, key=lambda name: not (graph.parents[name] or graph.children[name]))
    levels = [[name for name in order if depth[name] == level] for level in range(max(depth.values()) + 1)]
    return {"levels": levels, "edges": graph.edges}


def plain_row(attributes: Mapping[str, Any], row: int = 0) -> dict[str, Any]:
    """The attributes of one image as numbers and names.

    >>> import torch
    >>> plain_row({"slant": torch.tensor([0.5]), "colour": ["red"]})
    {'slant': 0.5, 'colour': 'red'}
    """
    return {
        name: column[row].item() if isinstance(column, Tensor) else column[row] for name, column in attributes.items()
    }
