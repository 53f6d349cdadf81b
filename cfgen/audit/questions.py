"""`Questions`: everything about an audit that is decided before the first image is drawn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor

from cfgen.attributes import Schema
from cfgen.audit.answers import COUNTERFACTUAL, REAL, RECONSTRUCTION, Picture, from_parquet, to_parquet
from cfgen.effects import OneOfClasses, Outcome, Value, YesNo
from cfgen.effects.strength import Strength
from cfgen.errors import UserError
from cfgen.image_ids import id_keys
from cfgen.interventions import Intervention, Toggle
from cfgen.io.files import read_bytes, read_json
from cfgen.scm.graph import CausalGraph

if TYPE_CHECKING:
    import pandas as pd

    from cfgen.audit._material import Material

__all__ = ["EVERYONE", "AuditedClassifier", "Group", "Questions", "Request", "load_questions"]

EVERYONE = "everyone"
QUESTIONS, IMAGES, REQUESTS = "questions.json", "images.parquet", "requests.safetensors"
OUTCOMES: dict[str, type[Outcome]] = {"yes or no": YesNo, "one of classes": OneOfClasses, "value": Value}


@dataclass(frozen=True)
class Request:
    """The counterfactual attributes of the images in `mask` (N,): `a_c` has a row for each of them, in order."""

    a_c: Tensor
    mask: Tensor

    @cached_property
    def place(self) -> Tensor:
        return self.mask.cumsum(0) - 1

    def attributes(self, rows: Tensor) -> Tensor:
        """a_c of some images by their numbers; all of them in the mask."""
        return self.a_c[self.place[rows]]

    def to(self, device: torch.device) -> Request:
        return Request(self.a_c.to(device), self.mask)


class Group(NamedTuple):
    """Some of the images: a cohort, or a subgroup of an attribute.  `selected_by` are the attributes that choose them."""

    name: str
    members: Tensor
    selected_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class AuditedClassifier:
    """What is known about a classifier before it answers.

    Attributes:
        name: unique within the audit.
        outcome: the kind of its answers.
        label: what yes means.
        labels: the data's own answers, (N,): yes or no, or numbers of classes; None where the data has none.
        reported: the classes that findings are wanted about; one empty name where there is only yes and no.
    """

    name: str
    outcome: Outcome
    label: str
    labels: Tensor | None = field(default=None, repr=False)
    reported: tuple[str, ...] = ("",)

    def to_dict(self) -> dict[str, Any]:
        kind = next(name for name, one in OUTCOMES.items() if type(self.outcome) is one)
        return {"name": self.name, "outcome": {"kind": kind, **vars(self.outcome)}, "label": self.label,
                "reported": list(self.reported)}  # fmt: skip

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], labels: Tensor | None) -> AuditedClassifier:
        about = {key: tuple(one) if isinstance(one, list) else one for key, one in values["outcome"].items()}
        outcome = OUTCOMES[str(about.pop("kind"))](**about)
        return cls(values["name"], outcome, values["label"], labels, tuple(values["reported"]))


@dataclass(frozen=True)
class Questions:
    """What an audit asks, of which images and classifiers, in numbers.  It can be saved, and read without model or images.

    Attributes:
        schema, graph: the attributes and their causal graph.
        ids, columns, extra: the images' ids, their attributes in real units, and further columns to adjust for.
        interventions, toggles: bound interventions, and the lines of the importance ranking.
        requests: the counterfactual attributes of images, by picture: each model has its own Attribute-SCM.
        cohorts, subgroups: groups of images; the first cohort is `EVERYONE`.
        hold: attributes that keep their values although an intervention would change them.
        curves: names of interventions that are points of a curve, by attribute.
        classifiers, models: who answers, and whose counterfactuals; names that are unique.
        pairs: the images whose true counterfactual is used, by intervention.
        calibrated: strengths known from the model's calibration, by intervention.
        explained: the images that the ranking is computed on.
        local: numbers of the images that are explained one by one.
        has_truth: whether the true counterfactuals are known.
        facts: what a reader should know about data, models and predictor; part of the results.
        material: models, networks and images, while they are in memory.
    """

    schema: Schema = field(repr=False)
    graph: CausalGraph = field(repr=False)
    ids: Sequence[str] = field(repr=False)
    columns: Mapping[str, Tensor] = field(repr=False)
    interventions: tuple[Intervention, ...]
    requests: Mapping[Picture, Request] = field(repr=False)
    cohorts: tuple[Group, ...]
    classifiers: tuple[AuditedClassifier, ...]
    models: tuple[str, ...]
    extra: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    toggles: tuple[Toggle, ...] = ()
    subgroups: tuple[Group, ...] = ()
    hold: tuple[str, ...] = ()
    curves: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pairs: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    calibrated: Mapping[str, Strength] = field(default_factory=dict, repr=False)
    explained: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool), repr=False)
    local: tuple[int, ...] = ()
    has_truth: bool = False
    keep_residual: bool = False
    seed: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)
    material: Material | None = field(default=None, repr=False, compare=False)

    def loaded(self) -> Material:
        """The models, networks and images; refuses questions that were read from a folder."""
        if self.material is None:
            raise UserError("these questions were read from a folder, without models and images; call prepare again")
        return self.material

    def intervention(self, name: str) -> Intervention:
        return next(one for one in self.interventions if one.name == name)

    @cached_property
    def keys(self) -> Tensor:
        """A whole number for each image that its noise depends on: a hash of its id."""
        return torch.from_numpy((id_keys(self.ids) >> np.uint64(1)).astype(np.int64))

    @property
    def in_curves(self) -> set[str]:
        """The names of all interventions that are points of a curve."""
        return {name for names in self.curves.values() for name in names}

    def held_by(self, intervention: Intervention) -> list[str]:
        """The attributes that keep their values although this intervention would change them."""
        changed = self.graph.descendants(intervention.attributes) - set(intervention.attributes)
        return [name for name in self.hold if name in changed]

    def base_picture(self, model: str) -> Picture:
        """What the counterfactuals of a model are compared with: its reconstructions, or the images where residuals are kept."""
        return Picture(REAL) if self.keep_residual else Picture(RECONSTRUCTION, model=model)

    def compared(self, intervention: Intervention, model: str = "") -> tuple[Picture, Picture]:
        """The two pictures that an intervention compares, before and after."""
        model = model or self.models[0]
        arms = [Picture(COUNTERFACTUAL, intervention.name, arm.name, model) for arm in intervention.arms(self.columns)]
        return (arms[0] if len(arms) > 1 else self.base_picture(model)), arms[-1]

    def files(self) -> dict[str, bytes | str]:
        """The saved files by name."""
        plain = {
            "attributes": self.schema.spec,
            "graph": self.graph.edges,
            "interventions": [_used_fields(one) for one in self.interventions],
            "toggles": [_used_fields(one) for one in self.toggles],
            "cohorts": [[one.name, one.selected_by] for one in self.cohorts],
            "subgroups": [[one.name, one.selected_by] for one in self.subgroups],
            "classifiers": [one.to_dict() for one in self.classifiers],
            "calibrated": {name: one.to_dict() for name, one in self.calibrated.items()},
            "extra": list(self.extra),
            **{name: getattr(self, name) for name in PLAIN},
        }
        tensors: dict[str, Tensor] = {}
        for index, request in enumerate(self.requests.values()):
            # copies: safetensors refuses tensors that share memory
            tensors |= {f"a_c/{index}": request.a_c.cpu().clone(), f"mask/{index}": request.mask.clone()}
        return {
            QUESTIONS: json.dumps(plain | {"requests": list(self.requests)}, indent=1, allow_nan=False),
            IMAGES: to_parquet(self._image_frame()),
            REQUESTS: save(tensors),
        }

    def _image_frame(self) -> pd.DataFrame:
        """One row per image: its id, and a column for all that is known about it; names have their kind in front."""
        import pandas as pd

        parts: dict[str, Any] = {"image_id": list(self.ids)}
        parts |= {f"attribute:{name}": column.cpu().numpy() for name, column in self.columns.items()}
        parts |= {f"extra:{name}": column.cpu().numpy() for name, column in self.extra.items()}
        for kind, groups in (("cohort", self.cohorts), ("subgroup", self.subgroups)):
            parts |= {f"{kind}:{one.name}": one.members.numpy() for one in groups}
        parts |= {f"labels:{one.name}": one.labels.numpy() for one in self.classifiers if one.labels is not None}
        parts |= {f"pairs:{name}": mask.numpy() for name, mask in self.pairs.items()}
        return pd.DataFrame(parts | {"explained": self.explained.numpy()})


PLAIN = ("hold", "curves", "models", "local", "has_truth", "keep_residual", "seed", "facts")


def _used_fields(intervention: Intervention) -> dict[str, Any]:
    """An intervention as JSON values, without the fields that it does not use: these are NaN, which JSON does not have."""
    fields = intervention.to_dict()
    return {
        key: one
        for key, one in fields.items()
        if all(part == part for part in (one if isinstance(one, tuple) else [one]))
    }


def load_questions(folder: str | Path) -> Questions:
    """The questions that an audit saved in its folder, without models, networks and images."""
    folder = Path(folder)
    plain, frame = read_json(folder / QUESTIONS), from_parquet(folder / IMAGES)
    tensors = load(read_bytes(folder / REQUESTS))

    def columns(kind: str) -> dict[str, Tensor]:
        names = [name for name in frame.columns if name.startswith(f"{kind}:")]
        return {name.partition(":")[2]: torch.from_numpy(np.array(frame[name])) for name in names}

    members = {kind: columns(kind) for kind in ("cohort", "subgroup", "labels")}
    groups = {
        kind: tuple(Group(name, members[kind][name], tuple(by)) for name, by in plain[f"{kind}s"])
        for kind in ("cohort", "subgroup")
    }
    toggles = [Intervention.from_dict(one) for one in plain["toggles"]]
    return Questions(
        schema=Schema(plain["attributes"]),
        graph=CausalGraph(list(plain["attributes"]), plain["graph"]),
        ids=list(frame["image_id"]),
        columns=columns("attribute"),
        extra=columns("extra"),
        interventions=tuple(Intervention.from_dict(one) for one in plain["interventions"]),
        toggles=tuple(one for one in toggles if isinstance(one, Toggle)),
        requests={
            Picture(*picture): Request(tensors[f"a_c/{index}"], tensors[f"mask/{index}"])
            for index, picture in enumerate(plain["requests"])
        },
        cohorts=groups["cohort"],
        subgroups=groups["subgroup"],
        classifiers=tuple(
            AuditedClassifier.from_dict(one, members["labels"].get(one["name"])) for one in plain["classifiers"]
        ),
        pairs=columns("pairs"),
        calibrated={name: Strength.from_dict(one) for name, one in plain["calibrated"].items()},
        explained=torch.from_numpy(np.array(frame["explained"])),
        hold=tuple(plain["hold"]),
        curves={name: tuple(points) for name, points in plain["curves"].items()},
        models=tuple(plain["models"]),
        local=tuple(plain["local"]),
        **{name: plain[name] for name in ("has_truth", "keep_residual", "seed", "facts")},
    )
