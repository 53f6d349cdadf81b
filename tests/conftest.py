"""Fixtures that the whole suite shares."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# a test must never reach for the network, nor ask a question
os.environ.setdefault("WANDB_MODE", "offline")
os.environ.setdefault("WANDB_SILENT", "true")


# deadlines measure the machine; on CI the same examples every time, so that a red run can be repeated
settings.register_profile("cfgen", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("cfgen")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with real MNIST, Morpho-MNIST and CelebA, or a skip that says what is missing."""
    named = os.environ.get("CFGEN_DATA")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs real data: set CFGEN_DATA to a folder with mnist/, morphomnist_deepscm/ and celeba/")
    return folder
