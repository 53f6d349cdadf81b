"""A Trainer for tests: on the CPU, without logger, bars, summaries, checkpoints or advice."""

import warnings
from pathlib import Path
from typing import Any

import pytorch_lightning as pl

__all__ = ["quiet_trainer"]


def quiet_trainer(folder: Path, **options: Any) -> pl.Trainer:
    quiet = {
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pl.Trainer(accelerator="cpu", default_root_dir=folder, **quiet | options)
