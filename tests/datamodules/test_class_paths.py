"""The names that configs and saved runs have for the DataModules, all of which stay."""

import pytest

import datamodules
from cfgen.io.classes import found_class
from datamodules.base import AttributeDataModule
from datamodules.celeba import CelebA
from datamodules.faces.data import Faces
from datamodules.morpho_mnist import MorphoMNIST


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("datamodules.CelebA", CelebA),
        ("datamodules.celeba.CelebA", CelebA),
        ("datamodules.Faces", Faces),
        ("datamodules.faces.Faces", Faces),
        ("datamodules.faces.data.Faces", Faces),
        ("datamodules.MorphoMNIST", MorphoMNIST),
        ("datamodules.morpho_mnist.MorphoMNIST", MorphoMNIST),
    ],
)
def test_class_paths(path: str, kind: type) -> None:
    assert found_class(path, AttributeDataModule, "a config") is kind


def test_unknown_names_are_unknown() -> None:
    assert dir(datamodules) == sorted(datamodules.__all__)
    assert not hasattr(datamodules, "Celeba")
    assert not hasattr(datamodules.faces, "Face")  # type: ignore[attr-defined]
