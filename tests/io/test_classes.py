"""Which classes a stranger's file can name: those that come with cfgen and are of the kind that is needed, and no others."""

import os
import sys

import pytest
import pytorch_lightning as pl

from cfgen.errors import UserError
from cfgen.io.classes import found_class, trusting
from lightning_modules import CondALI, ImageMechanismModule

OWN = """
import pathlib
pathlib.Path("RAN").touch()
import pytorch_lightning as pl
class Data(pl.LightningDataModule):
    pass
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of somebody's in the working directory, which can be imported and leaves a trace when it is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    (tmp_path / "somebodys.py").write_text(OWN)
    yield tmp_path / "RAN"
    sys.modules.pop("somebodys", None)


def refused(path, kind=pl.LightningDataModule) -> str:
    with pytest.raises(UserError) as caught:
        found_class(path, kind, "m/config.yaml")
    return str(caught.value)


def test_classes_of_cfgen_are_found():
    assert found_class("lightning_modules.CondALI", ImageMechanismModule, "m") is CondALI
    assert found_class("lightning_modules.cond_ali.CondALI", ImageMechanismModule, "m") is CondALI


def test_a_class_from_elsewhere_is_imported_only_where_it_is_trusted(own):
    said = refused("somebodys.Data")
    assert "--trusted" in said
    assert "trusted=True" in said
    assert not own.exists()
    assert "somebodys" not in sys.modules
    with trusting(False):
        refused("somebodys.Data")
    assert not own.exists()
    with trusting():
        assert found_class("somebodys.Data", pl.LightningDataModule, "m").__name__ == "Data"
    assert own.exists()
    # what the process has imported, the user has imported
    assert found_class("somebodys.Data", pl.LightningDataModule, "m").__name__ == "Data"


@pytest.mark.parametrize(
    "path",
    ["subprocess.Popen", "os.system", "builtins.eval", "sys.exit", "cfgen.checkpoints.Path", "datamodules.base.np",
     "lightning_modules.CondALI", "pytorch_lightning.Trainer"],
)  # fmt: skip
def test_what_is_of_another_kind_is_refused_also_where_it_is_trusted(path):
    for trusted in (False, True):
        with trusting(trusted):
            assert "LightningDataModule" in refused(path)


@pytest.mark.parametrize(
    "path",
    [
        "X",
        ".X",
        "",
        "a..b",
        "datamodules.",
        "a b.C",
        "datamodules/x.Y",
        None,
        3,
        ["a.B"],
        "datamodules.nothing.X",
        "datamodules.Nothing",
    ],
)
def test_what_is_no_path_of_a_class(path):
    assert "m/config.yaml" in refused(path)


def test_looking_for_a_class_imports_nothing(monkeypatch):
    """Not even by way of a module that is there and imports others when it is asked for a name."""
    before = set(sys.modules)
    for path in ("unittest.__main__.X", "this.X", "antigravity.X", "os.path.X", "scipy.odr.X", "xml.sax.X"):
        refused(path)
    assert set(sys.modules) == before


def test_own_module_that_ends_the_process(own, tmp_path):
    (tmp_path / "somebodys.py").write_text("import sys\nsys.exit(0)\n")
    with trusting():
        assert "SystemExit" in refused("somebodys.Data")
    assert os.getcwd() == str(tmp_path)
