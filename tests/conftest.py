"""Fixtures that the whole suite shares."""

import os
import signal

# two workers on two cores: a thread each, or they wait for one another
os.environ.setdefault("OMP_NUM_THREADS", "1")

from pathlib import Path

import pytest
from hypothesis import settings

from tests.processes import two_processes  # noqa: F401  # a fixture

# a test must never reach for the network, nor ask a question
os.environ.setdefault("WANDB_MODE", "offline")
os.environ.setdefault("WANDB_SILENT", "true")
# a fault is shown where it happens, and not kept in a file
os.environ.setdefault("CFGEN_DEBUG", "1")
# a suite that is started in the background, or by nohup, inherits ignored signals
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


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


TINY = [
    "--data.limit",
    "300",
    "--data.batch_size",
    "50",
    "--model.width",
    "0.1",
    "--trainer.enable_progress_bar",
    "false",
]


@pytest.fixture(scope="session")
def digits_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder for prepared digits that the whole session shares."""
    return tmp_path_factory.mktemp("digits")


@pytest.fixture(scope="session")
def tiny(digits_cache: Path) -> list[str]:
    """Options that shrink a Morpho-MNIST config to seconds."""
    return [*TINY, "--data.cache_dir", str(digits_cache)]


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory, tiny: list[str]) -> Path:
    """A finished run of the quickstart config, tiny: never changed by a test."""
    from cfgen.commands import fit

    runs = tmp_path_factory.mktemp("runs")
    arguments = ["--config", "quickstart", *tiny, "--trainer.max_epochs", "2", "--runs_dir", str(runs)]
    arguments += ["--trainer.check_val_every_n_epoch", "1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_MODE", "disabled")
        assert fit.main(arguments) == 0
    return runs / "quickstart" / "001"
