"""Drawn faces and a model of them, as a user would have it."""

import pytest
import yaml

from cfgen.runs.model import TrainedModel
from datamodules import Faces
from tests.audit.shifting import Shift

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
    """An exported model with its config beside it."""
    module = Shift(data.scm_spec, data.image_shape)
    module.scm.fit(data.train_columns)
    folder = TrainedModel(module).save(tmp_path_factory.mktemp("audit") / "run")
    settings = {"count": COUNT, "cache_dir": str(faces_cache)}
    (folder / "config.yaml").write_text(
        yaml.safe_dump({"data": {"class_path": "datamodules.Faces", "init_args": settings}})
    )
    return folder


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path
