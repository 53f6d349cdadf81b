"""A small world whose truth is known: machines in a workshop, photographed by two cameras, and a generator that is trained on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import yaml
from torch import Tensor, nn

from cfgen.runs.model import TrainedModel
from datamodules.base import Split
from tests.fakes import BINARY, SHAPE, Painted, Painter, stripes

ATTRIBUTES = dict.fromkeys(("old", "damaged", "wet"), BINARY)
EDGES = [["old", "damaged"]]
STRENGTH = 0.3


class Workshop(Painted):
    """Old machines are more often damaged.  With `hidden`, a second camera photographs damaged ones, and takes brighter pictures."""

    def __init__(self, rows: int = 1500, hidden: bool = False, seed: int = 0) -> None:
        super().__init__(ATTRIBUTES, EDGES, SHAPE, rows, strength=STRENGTH, seed=seed)
        self.hidden = hidden

    def split(self, generator: torch.Generator) -> Split:
        draw = torch.rand(5, self.rows, generator=generator)
        camera, old, wet = ((draw[k] < 0.5).float() for k in range(3))
        damaged = (draw[3] < damage(old, camera, self.hidden)).float()
        columns = {"old": old, "damaged": damaged, "wet": wet}
        a = torch.stack(list(columns.values()), dim=1)
        x = grey(draw[4], camera, self.hidden) + torch.einsum("nk,kchw->nchw", a, stripes(3, SHAPE, STRENGTH))
        return Split((x * 255).round().to(torch.uint8), columns, damaged.long(), {"camera": camera})


def damage(old: Tensor, camera: Tensor, hidden: bool) -> Tensor:
    """P(damaged | its causes)."""
    return 0.15 + 0.3 * old + (0.4 * camera if hidden else 0.1)


def grey(level: Tensor, camera: Tensor, hidden: bool) -> Tensor:
    """The background of each image, which no attribute changes."""
    return (0.02 + 0.2 * level + (0.25 * camera if hidden else 0))[:, None, None, None].expand(-1, *SHAPE)


class Learned(Painter):
    """Learns by least squares what each attribute adds to an image."""

    def learn(self, x: Tensor, a: Tensor) -> Learned:
        design = torch.cat([torch.ones(len(a), 1), a], dim=1)
        fitted = torch.linalg.lstsq(design, x.flatten(1)).solution[1:]
        with torch.no_grad():
            self.stripes.copy_(fitted.unflatten(1, SHAPE))
        return self


class Bright(nn.Module):
    """Says yes to bright images: every attribute and the camera count."""

    def forward(self, x: Tensor) -> Tensor:
        return 20 * (x.mean((1, 2, 3)) - 0.27)


class SeesDamage(nn.Module):
    """Says yes where the rows that damage brightens are brighter than the free ones at the lower edge."""

    def forward(self, x: Tensor) -> Tensor:
        return 20 * (x[:, 0, 8:16].mean((1, 2)) - x[:, 0, -4:].mean((1, 2)) - STRENGTH / 2)


class Wetness(nn.Module):
    """Looks at wet alone."""

    def forward(self, x: Tensor) -> Tensor:
        return 20 * (x[:, 0, 16:24].mean((1, 2)) - 0.3)


def trained(data: Workshop, blind_to: str | None = None) -> Learned:
    """A generator trained on the training split; `blind_to` an attribute whose column was shuffled in training."""
    data.setup()
    columns = dict(data.train_columns)
    if blind_to is not None:
        order = torch.randperm(data.rows, generator=torch.Generator().manual_seed(1))
        columns[blind_to] = columns[blind_to][order]
    module = Learned(data.scm_spec).learn(data.images("train") / 255, data.schema.encode(columns))
    module.scm.fit(data.train_columns)
    return module.eval()


def exported(module: Learned, data: Workshop, folder: Any) -> Any:
    """The generator as a folder with its config beside it."""
    folder = TrainedModel(module).save(folder)
    settings = {"rows": data.rows, "hidden": data.hidden, "seed": data.seed}
    config = {"data": {"class_path": "tests.audit.worlds.Workshop", "init_args": settings}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return folder


def true_effect(network: nn.Module, do: Mapping[str, int], hidden: bool = False, hold: tuple[str, ...] = ()) -> float:
    """E[f(X_do)] - E[f(X)] over what the intervention changes, from 200,000 machines whose noise is kept."""
    draw = torch.rand(5, 200_000, generator=torch.Generator().manual_seed(9))
    camera, old, wet = ((draw[k] < 0.5).float() for k in range(3))
    own = {"old": old, "damaged": (draw[3] < damage(old, camera, hidden)).float(), "wet": wet}
    after = dict(own) | {name: torch.full_like(old, value) for name, value in do.items()}
    if "damaged" not in do and "damaged" not in hold:
        after["damaged"] = (draw[3] < damage(after["old"], camera, hidden)).float()
    changed = torch.stack([own[name] != value for name, value in do.items()]).any(dim=0)
    answers = []
    for columns in (own, after):
        a = torch.stack([columns[name] for name in ATTRIBUTES], dim=1)
        rows = [
            network(grey(g, c, hidden) + torch.einsum("nk,kchw->nchw", part, stripes(3, SHAPE, STRENGTH))) > 0
            for g, c, part in zip(draw[4].split(10_000), camera.split(10_000), a.split(10_000), strict=True)
        ]
        answers.append(torch.cat(rows)[changed].float().mean())
    return (answers[1] - answers[0]).item()
