"""A small world for the app: painted signs, a model that paints them exactly, a classifier of bright ones, all in run folders."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from cfgen.app.catalogue import Catalogue
from cfgen.app.studio import Studio
from lightning_modules import Classifier
from tests.fakes import SHAPE, Painted, Painter, finished, fitted

WET = "<b>wet"  # whoever made the model chose the names
ATTRIBUTES = {
    "size": {"kind": "continuous", "low": 1.0, "high": 5.0},
    "gloss": {"kind": "continuous", "low": 0.0, "high": 10.0},
    "colour": {"kind": "categorical", "values": ["red", "green"]},
    WET: {"kind": "binary"},
}
EDGES = [["size", "gloss"]]
HEADERS = {"X-Client": "tester"}
MODEL, CLASSIFIER = "runs/signs", "tests.app.world:bright"
SHADES, MEAN = "tests.app.world:shades", "tests.app.world:mean"  # a classifier of three classes, and a predicted value


class Signs(Painted):
    """Larger signs are glossier."""

    def __init__(self, rows: int = 120) -> None:
        super().__init__(ATTRIBUTES, EDGES, SHAPE, rows, strength=0.2)

    def drawn(self, name: str, generator: torch.Generator) -> Tensor:
        if name == "size":
            self._size = super().drawn(name, generator)
            return self._size
        if name == "gloss":
            return self._size + 4 * torch.rand(self.rows, generator=generator)
        return super().drawn(name, generator)

    def shareable(self) -> Signs:
        return self


class Bright(nn.Module):
    """The logit of a bright picture."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(40.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * (x.mean(dim=(1, 2, 3)) - 0.27)


def bright() -> nn.Module:
    return Bright()


class Shades(nn.Module):
    """The logits of a dark, a middling and a light picture."""

    def forward(self, x: Tensor) -> Tensor:
        levels = torch.tensor([0.2, 0.27, 0.34])
        return -2000 * (x.mean(dim=(1, 2, 3))[:, None] - levels) ** 2


def shades() -> nn.Module:
    return Shades()


class Mean(nn.Module):
    """How bright a picture is."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(1, 2, 3))


def mean() -> nn.Module:
    return Mean()


def built(folder: Path) -> Path:
    """A folder with the runs `signs` and `sign_classifier`."""
    config: dict[str, Any] = {
        "data": {"class_path": "tests.app.world.Signs", "init_args": {}},
        "model": {"class_path": "tests.fakes.Painter"},
    }
    finished(fitted(Painter, Signs(), strength=0.2), folder / "runs/signs/001", config)
    other = {**config, "model": {"class_path": "lightning_modules.Classifier"}}
    torch.manual_seed(0)
    finished(Classifier(SHAPE, 2, width=0.1), folder / "runs/sign_classifier/001", other)
    return folder


def studio(classifier: bool = True) -> Studio:
    """The app's inside, for the folder that we are in."""
    return Studio(Catalogue(MODEL, [CLASSIFIER] if classifier else []))


def png(width: int = 28, height: int = 28, mode: str = "L") -> bytes:
    file = io.BytesIO()
    Image.new(mode, (width, height), 90).save(file, "PNG")
    return file.getvalue()


def zip_file() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("digit.png", png())
    return file.getvalue()


def truncated_jpeg() -> bytes:
    file = io.BytesIO()
    Image.effect_noise((200, 200), 80).convert("RGB").save(file, "JPEG")
    return file.getvalue()[: len(file.getvalue()) // 2]


def pixels_of(uri: str) -> Tensor:
    """The pixels of a picture inside a page, as uint8."""
    import base64

    import numpy as np

    data = base64.b64decode(uri.removeprefix("data:image/png;base64,"))
    return torch.from_numpy(np.array(Image.open(io.BytesIO(data))))


def asked(**question: Any) -> str:
    return json.dumps({"model": MODEL, "image": 0, "do": {}, **question})
