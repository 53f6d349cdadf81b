"""What all pages share: the lists, the models that are open, the pictures that were sent, and the workers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cfgen.app.audits import Audits
from cfgen.app.catalogue import Catalogue
from cfgen.app.dataset import columns_of, report_of
from cfgen.app.queueing import FairWorker
from cfgen.app.uploads import Upload, Uploads
from cfgen.app.whatif import OpenModel
from cfgen.attributes import Columns
from cfgen.classifiers import LoadedClassifier
from cfgen.errors import UserError
from cfgen.runs.model import TrainedModel

__all__ = ["Question", "Studio"]

KEPT = 4  # models with their images, and as many data sets


@dataclass(frozen=True)
class Question:
    """What if?  As a page asks it: of which model and image, under which interventions."""

    model: str
    image: int | str  # an example's number, or the id of a picture that was sent
    do: dict[str, Any]
    given: dict[str, Any]
    follow: bool
    classifier: str | None

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> Question:
        model, image, classifier = asked.get("model"), asked.get("image"), asked.get("classifier")
        if not isinstance(model, str):
            raise UserError("choose a model", argument="model")
        if not isinstance(image, int | str) or isinstance(image, bool):
            raise UserError("choose an example, or a picture of your own", argument="image")
        if not (classifier is None or isinstance(classifier, str)):
            raise UserError("choose a classifier of the list", argument="classifier")
        do, given = (_values(asked.get(name, {}), name) for name in ("do", "given"))
        return cls(model, image, do, given, asked.get("follow", True) is not False, classifier)


def _values(asked: Any, argument: str) -> dict[str, Any]:
    """Attributes with a number or a name each."""
    if not isinstance(asked, dict) or not all(isinstance(value, int | float | str) for value in asked.values()):
        raise UserError("expected attributes with one value each", argument=argument)
    return asked


@dataclass
class Studio:
    """One app.  `sliders` is the worker of everything that somebody waits for at a control; `reading` reads data sets.

    `inputs` are the words that say on a command line what the named classifiers take.
    """

    catalogue: Catalogue
    inputs: Sequence[str] = ()
    sliders: FairWorker = field(default_factory=lambda: FairWorker("sliders"))
    reading: FairWorker = field(default_factory=lambda: FairWorker("reading"))
    uploads: Uploads = field(default_factory=Uploads)

    def __post_init__(self) -> None:
        self.audits = Audits(self.catalogue, self.catalogue.load, self.sliders, self.inputs)
        self._opened: OrderedDict[str, OpenModel] = OrderedDict()
        self._data: OrderedDict[tuple[str, str], Any] = OrderedDict()

    def close(self) -> None:
        self.audits.close()
        self.sliders.close()
        self.reading.close()
        self.uploads.close()

    def opened(self, name: str) -> OpenModel:
        """A model of the list, ready for questions; for the thread of `sliders` alone."""
        model = self.catalogue.load(name)
        if name not in self._opened or self._opened[name].model is not model:
            self._opened[name] = OpenModel(model)
        return _newest(self._opened, name)

    def description(self, name: str) -> dict[str, Any]:
        return self.opened(name).description(self.catalogue.classifiers_for(name))

    def answer(self, question: Question) -> dict[str, Any]:
        opened, image, classifier = self._parts(question)
        return opened.answer(
            image, question.do, given=question.given, follow=question.follow, classifier=classifier
        )  # fmt: skip

    def strip(self, question: Question, attribute: str) -> list[dict[str, Any]]:
        opened, image, classifier = self._parts(question)
        return opened.strip(
            image, question.do, attribute, given=question.given, follow=question.follow, classifier=classifier
        )

    def _parts(self, question: Question) -> tuple[OpenModel, Upload | int, LoadedClassifier | None]:
        opened = self.opened(question.model)
        image = self.uploads[question.image] if isinstance(question.image, str) else question.image
        name = question.classifier
        return opened, image, None if name is None else self.catalogue.load_classifier(name, opened.model)

    def data_report(self, name: str) -> dict[str, Any]:
        """What is in the data of a model; for the thread of `reading` alone, as the next."""
        return self._read("report", name, report_of)

    def columns(self, name: str) -> tuple[TrainedModel, dict[str, Columns]]:
        """A model, and the attributes of its training and of its test images."""
        return self.catalogue.load(name), self._read("columns", name, columns_of)

    def _read(self, kind: str, name: str, read: Callable[[TrainedModel], Any]) -> Any:
        model = self.catalogue.load(name)
        key = (kind, name)
        if key not in self._data or self._data[key][0] is not model:
            self._data[key] = (model, read(model))
        return _newest(self._data, key)[1]


def _newest(kept: OrderedDict[Any, Any], key: Any) -> Any:
    """What is kept under a key, which then is the last to go."""
    kept.move_to_end(key)
    while len(kept) > KEPT:
        kept.popitem(last=False)
    return kept[key]
