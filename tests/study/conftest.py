"""A small study of painted images, which every test of studies shares and none changes."""

from pathlib import Path

import pytest

from cfgen.runs.examples import write_examples
from cfgen.runs.model import TrainedModel
from cfgen.study.making import new_study
from tests.fakes import FACES, Painted, Painter, fitted


@pytest.fixture(scope="session")
def painter(tmp_path_factory) -> TrainedModel:
    """A model with 120 examples, each attribute of which is a stripe."""
    data = Painted(FACES)
    module, folder = fitted(Painter, data), tmp_path_factory.mktemp("painter")
    write_examples(folder, data.images("test")[:120], {k: v[:120] for k, v in data.columns("test").items()})
    return TrainedModel(module, folder, "painter")


DO = [{"Bangs": 1}, {"Pale_Skin": 0}]


@pytest.fixture(scope="session")
def made(painter):
    return new_study(painter, DO, seed=3, mail="study@example.org")


@pytest.fixture
def folder(made, tmp_path) -> Path:
    return made.save(tmp_path / "studies" / "stripes")
