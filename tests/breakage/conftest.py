"""A place of its own for every test, with a finished run in it."""

import shutil

import pytest

from datamodules import MorphoMNIST
from tests.breakage.tiny import painted


@pytest.fixture(scope="session")
def original(tmp_path_factory):
    return painted(tmp_path_factory.mktemp("painted") / "run")


@pytest.fixture(scope="session")
def prepared(digits_cache):
    """A cache that has the digits of `cfgen data --limit 100`."""
    MorphoMNIST(limit=100, cache_dir=str(digits_cache)).prepare_data()
    return digits_cache


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch, original, prepared):
    """The working directory, with copies of the run and a cache; faults are logged outside of it."""
    folder = tmp_path / "here"
    folder.mkdir()
    for name in ("run", "other"):
        shutil.copytree(original, folder / name)
    (folder / "cache").symlink_to(prepared)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CFGEN_DEBUG", raising=False)
    return folder
