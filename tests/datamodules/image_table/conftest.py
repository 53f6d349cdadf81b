"""A folder of pictures with a table, made once for each file of tests."""

import copy
import shutil
from pathlib import Path

import pytest

from tests.datamodules.image_folder import Made, make_folder


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Never changed by a test."""
    folder = tmp_path_factory.mktemp("original") / "mine"
    return folder, make_folder(folder)


@pytest.fixture(scope="module")
def folder(original: Made) -> Path:
    """Never changed by a test."""
    return original[0]


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that tests share."""
    return tmp_path_factory.mktemp("packs")


@pytest.fixture
def made(original: Made, tmp_path: Path) -> Made:
    """A copy that a test may spoil."""
    shutil.copytree(original[0], tmp_path / "mine")
    return tmp_path / "mine", copy.deepcopy(original[1])


@pytest.fixture
def copied(made: Made) -> Path:
    """The same, without its records."""
    return made[0]
