"""Drawn faces and a model of them, as a user would have it."""

import pytest

from datamodules import Faces
from tests.audit.shifting import Shift
from tests.fakes import finished

COUNT = 430


@pytest.fixture(scope="session")
def faces_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("faces")


@pytest.fixture(scope="session")
def data(faces_cache):
    faces = Faces(count=COUNT, cache_dir=str(faces_cache))
    faces.prepare_data()
    faces.setup()
    return faces


@pytest.fixture(scope="session")
def run(tmp_path_factory, faces_cache, data):
    """A run of a model."""
    module = Shift(data.scm_spec, data.image_shape)
    module.scm.fit(data.train_columns)
    settings = {"count": COUNT, "cache_dir": str(faces_cache)}
    config = {"data": {"class_path": "datamodules.Faces", "init_args": settings}}
    return finished(module, tmp_path_factory.mktemp("audit") / "run", config)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path
