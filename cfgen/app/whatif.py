"""The page "What if": a model that is open for questions, its images, and the answer to one question about one of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch

from cfgen.app.catalogue import data_of
from cfgen.app.drawing import (
    controls,
    difference_map,
    graph_levels,
    picture_uri,
    plain_row,
    sweep_values,
)
from cfgen.app.recipes import Recipe
from cfgen.app.uploads import Upload
from cfgen.classifiers import LoadedClassifier
from cfgen.errors import UserError, unknown_name
from cfgen.runs.generation import AbductedImages
from cfgen.runs.model import TrainedModel
from cfgen.runs.sources import Source, known_images, own_images

__all__ = ["AbductedPicture", "OpenModel", "answer_attributes"]

SHOWN = 24  # examples that a page offers
MOST_ABDUCTED = 64  # images whose states are kept


class AbductedPicture(AbductedImages):
    """One image with its state, and all about it that no intervention changes: a slider that moves does not wait for that."""

    @cached_property
    def original(self) -> str:
        return picture_uri(self.images[0])

    @cached_property
    def reconstruction(self) -> str:
        return picture_uri(self.reconstructions[0])

    @cached_property
    def own(self) -> dict[str, Any]:
        """Its attributes."""
        return plain_row(self.attributes)

    @cached_property
    def rounded(self) -> dict[str, Any]:
        """Its attributes as the model vector says them: there, what an intervention leaves alone is the same to the bit."""
        return plain_row(self.model.values(self.model.schema.decode(self.batch.a)))


class OpenModel:
    """A loaded model with what a page needs of it: controls, graph, example pictures, and images with their states."""

    def __init__(self, model: TrainedModel) -> None:
        self.model, self.name = model, str(model.source)
        self.data = data_of(model)
        self.controls = controls(model.schema, getattr(self.data, "units", None))
        self.examples_error = ""
        self._abducted: OrderedDict[Any, AbductedPicture] = OrderedDict()
        try:
            self.source: Source | None = known_images(model, [0])
        except UserError as error:  # e.g. its data is not on this machine; pictures of one's own can be asked about
            self.source, self.examples_error = None, str(error)

    def description(self, classifiers: Sequence[str]) -> dict[str, Any]:
        """All that the page shows before a question is asked."""
        count = 0 if self.source is None else min(SHOWN, len(self.source.images))
        examples = [self.example(number) for number in range(count)]
        channels, height, width = self.model.module.image_shape
        return {
            "model": self.name,
            "controls": self.controls,
            "graph": graph_levels(self.model.scm.graph),
            "examples": examples,
            "examples_error": self.examples_error,
            "image": {"channels": channels, "height": height, "width": width},
            "classifiers": list(classifiers),
        }

    def example(self, number: int) -> dict[str, Any]:
        """A picture of the list and its attributes."""
        assert self.source is not None
        chosen = torch.tensor([number])
        attributes = self.model.values({name: self.source.columns[name][chosen] for name in self.model.schema.names})
        picture = self.model.images(self.source.images[number : number + 1])[0]
        return {"picture": picture_uri(picture), "attributes": plain_row(attributes)}

    def abducted(self, image: Upload | int, given: Mapping[str, Any]) -> AbductedPicture:
        """One image with its state: an example by its number, or an upload with what is true of it."""
        key = (image, tuple(sorted(given.items()))) if isinstance(image, Upload) else image
        if key not in self._abducted:
            self._abducted[key] = AbductedPicture(self.model, self._source(image, given))
            while len(self._abducted) > MOST_ABDUCTED:
                self._abducted.popitem(last=False)
        self._abducted.move_to_end(key)
        return self._abducted[key]

    def _source(self, image: Upload | int, given: Mapping[str, Any]) -> Source:
        if isinstance(image, Upload):
            with image.named_in_errors():
                return own_images(self.model, [image.path], given)
        if self.source is None:
            raise UserError(self.examples_error, argument="image")
        if not 0 <= image < len(self.source.images):
            raise UserError(f"there are {len(self.source.images)} images, numbered from 0", argument="image")
        return replace(self.source, rows=torch.tensor([image]), names=[str(image)])

    def held(self, do: Mapping[str, Any], follow: bool) -> list[str]:
        """What keeps its value: nothing where the graph is followed, else all that the intervention would change."""
        return [] if follow else sorted(self.model.scm.graph.descendants(do) - set(do))

    def answer(
        self,
        image: Upload | int,
        do: Mapping[str, Any],
        *,
        given: Mapping[str, Any] | None = None,
        follow: bool = True,
        classifier: LoadedClassifier | None = None,
    ) -> dict[str, Any]:
        """The four pictures, attributes before and after, the changed graph, the classifier's answers and the recipes."""
        given = given or {}
        abducted = self.abducted(image, given)
        hold = self.held(do, follow)
        x_c, after = abducted.under(do, hold)
        x, x_r = abducted.images[0], abducted.reconstructions[0]
        difference, scale = difference_map(x_c[0], x_r)
        said = None
        if classifier is not None:
            said = {"label": classifier.label, "answers": classifier.answers(x, x_r, x_c[0])}
        recipe = Recipe(
            self.name, do, hold, given, image.name if isinstance(image, Upload) else image, self.model.trusted
        )
        return {
            "original": abducted.original,
            "reconstruction": abducted.reconstruction,
            "counterfactual": picture_uri(x_c[0]),
            "difference": difference,
            "scale": scale,
            **answer_attributes(abducted, do, hold, plain_row(after)),
            "classifier": said,
            "python": recipe.python() if do else "",
            "shell": recipe.shell() if do else "",
        }

    def strip(
        self,
        image: Upload | int,
        do: Mapping[str, Any],
        attribute: str,
        *,
        given: Mapping[str, Any] | None = None,
        follow: bool = True,
        classifier: LoadedClassifier | None = None,
    ) -> list[dict[str, Any]]:
        """The counterfactuals over the range of one attribute, beside the other interventions."""
        known = {control["name"]: control for control in self.controls}
        if attribute not in known:
            raise UserError(unknown_name("attribute", attribute, known), argument="attribute")
        abducted = self.abducted(image, given or {})
        frames = []
        for value in sweep_values(known[attribute]):
            asked = {**do, attribute: value}
            x_c, after = abducted.under(asked, self.held(asked, follow))
            said = None if classifier is None else classifier.answers(x_c[0])[0]
            frames.append(
                {"value": value, "picture": picture_uri(x_c[0]), "attributes": plain_row(after), "classifier": said}
            )
        return frames


def answer_attributes(
    abducted: AbductedPicture, do: Mapping[str, Any], hold: Collection[str], after: Mapping[str, Any]
) -> dict[str, Any]:
    """The attributes of an image before and after, what was set, what moved, what is held and which causes are cut."""
    graph = abducted.model.scm.graph
    following = graph.descendants(do, hold) - set(do)
    own = abducted.own
    moved = [name for name in own if name in following and after[name] != abducted.rounded[name]]
    return {
        "attributes": own,
        "counterfactual_attributes": {**own, **{name: after[name] for name in (*do, *moved)}},
        "intervened": list(do),
        "moved": moved,
        "held": list(hold),
        "cut": [edge for edge in graph.edges if edge[1] in do or edge[1] in hold],
    }
