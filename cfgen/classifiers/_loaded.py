"""A classifier that is ready to be asked: its network, the kind of its answers, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cfgen.attributes import TargetKind
from cfgen.classifiers._answers import YesProbability
from cfgen.effects.outcome import OneOfClasses, Outcome, YesNo

__all__ = ["LoadedClassifier", "class_names"]


@dataclass(frozen=True)
class LoadedClassifier:
    """One network and, for yes or no, one positive class.

    >>> network = YesProbability(nn.Sequential(nn.Flatten(), nn.AdaptiveAvgPool1d(1)), output="probability")
    >>> LoadedClassifier("brightness", None, network, YesNo()).answers(torch.full((1, 2, 2), 0.75))
    [{'answer': 'yes', 'p': 0.75}]

    Args:
        name: unique among the classifiers that are loaded together.
        source: the run, file or function that it was loaded from; None for a module.
        network: images in [0, 1] -> (N, columns), with one column per entry of `outcome.columns`.
        outcome: what its answers are.
        positive: the class that counts as yes, where the user gave one.
        label: what yes means, where the user said so.
        own: it is a run of cfgen.
        classes_from_data: the names of its classes are those of the data's target; the network itself does not name them.
        trusted: classes of the user's own that the run names may be imported.
    """

    name: str
    source: str | Path | None
    network: YesProbability
    outcome: Outcome
    positive: int | None = None
    label: str | None = None
    own: bool = False
    classes_from_data: bool = False
    trusted: bool = False

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of its classes; empty for yes or no, and for a value."""
        return self.outcome.classes if isinstance(self.outcome, OneOfClasses) else ()

    def to(self, device: torch.device | str) -> LoadedClassifier:
        """The same on a device."""
        self.network.to(device)
        return self

    def check(self, images: Tensor) -> None:
        """Raise if the classifier returns invalid output for a few images."""
        self.network.check(images)

    @torch.inference_mode()
    def answers(self, *images: Tensor) -> list[dict[str, Any]]:
        """The answer to each image (C, H, W), and `p`: the probability of yes or of the answer; a value has none."""
        raw = self.network(torch.stack(images)).tolist()
        match self.outcome:
            case OneOfClasses(classes):
                return [{"answer": classes[row.index(max(row))], "p": max(row)} for row in raw]
            case YesNo(threshold):
                return [{"answer": "yes" if p > threshold else "no", "p": p} for (p,) in raw]
            case _:
                return [{"answer": f"{value:.4g}", "p": None} for (value,) in raw]


def class_names(
    network: nn.Module, inputs: Mapping[str, Any], image_shape: Sequence[int], target: TargetKind | None
) -> tuple[tuple[str, ...], bool]:
    """The names of the classes of a network that has more than two, and whether they come from the data; else none.

    They are the names that a run of cfgen was trained with, else the values of the data's target if it has as many, else
    numbers.
    """
    if inputs["output"] not in ("logit", "probability"):
        return (), False
    try:
        with torch.inference_mode():
            output = YesProbability(network, **inputs).ask(torch.rand(2, *image_shape))
    except Exception:  # `check` explains what the network cannot take
        return (), False
    count = output.shape[1] if output.ndim == 2 else 1
    own = getattr(network, "target", None) or {}
    for names, from_data in ((own.get("values") or (), False), (target.values if target is not None else (), not own)):
        if len(names) == count > 2:
            return tuple(str(name) for name in names), from_data
    return tuple(f"class {number}" for number in range(count) if count > 2), False
