"""Where a run's scalars go: a CSV in the run's folder always, Weights & Biases when it can be had."""

from __future__ import annotations

import csv
import io
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import Logger, WandbLogger
from pytorch_lightning.utilities import rank_zero_only, rank_zero_warn

from cfgen.runs.folders import write_atomically

__all__ = ["COLUMNS", "ScalarCSV", "finish", "wandb_logger"]

COLUMNS = ["epoch", "step", "name", "value"]  # of metrics.csv


class ScalarCSV(Logger):
    """Every scalar as a row `epoch,step,name,value` of metrics.csv.

    One row a scalar, appended: a resumed run goes on in the same file, and metrics that come at different steps leave no holes.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    @property
    def name(self) -> str:
        return self.folder.parent.name

    @property
    def version(self) -> str:
        return self.folder.name

    @property
    def save_dir(self) -> str:
        return str(self.folder)

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """The resolved config.yaml in the same folder says more."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        path = self.folder / "metrics.csv"
        fresh = not path.exists()
        epoch = metrics.get("epoch", "")
        with path.open("a", newline="") as file:
            writer = csv.writer(file)
            if fresh:
                writer.writerow(COLUMNS)
            for name, value in metrics.items():
                if name != "epoch":
                    writer.writerow([epoch, step, name, f"{value:.8g}"])

    def forget_from(self, step: int) -> None:
        """Drops the rows of this step and later ones: a run that goes on from an earlier step writes them again."""
        path = self.folder / "metrics.csv"
        if not path.is_file():
            return
        with path.open(newline="") as file:  # its last line may be half written
            kept = [
                row for row in csv.reader(file) if len(row) == len(COLUMNS) and row[1].isdigit() and int(row[1]) < step
            ]
        text = io.StringIO(newline="")
        csv.writer(text).writerows([COLUMNS, *kept])
        write_atomically(path, lambda file: file.write(text.getvalue().encode()))


def wandb_logger(folder: Path, config: Mapping[str, Any], tell: Callable[[str], None]) -> WandbLogger | None:
    """W&B online when the user is logged in, else offline; asks nothing, and a run without it still runs.

    WANDB_MODE (online, offline, disabled) is obeyed.  `tell` hears where the run can be seen.
    """
    wanted = os.environ.get("WANDB_MODE", "")
    if wanted == "disabled":
        return None
    os.environ.setdefault("WANDB_SILENT", "true")  # its banners; `tell` says where the run is tracked
    try:
        import wandb

        online = wanted != "offline" and wandb.login(prompt=False, verify=False)
    except Exception as error:
        rank_zero_warn(f"Weights & Biases is not usable ({error}): scalars go to {folder / 'metrics.csv'} only")
        return None
    for mode in ("online", "offline") if online else ("offline",):
        try:
            wandb.setup(settings=wandb.Settings(silent=True))  # or it warns of a setting that Lightning passes as None
            logger = WandbLogger(
                name="/".join(folder.parts[-2:]),
                project="cfgen",
                save_dir=str(folder),
                id=run_id(folder),
                mode=mode,
                # console capture off: progress bars would fill its log
                settings=wandb.Settings(console="off", init_timeout=30),
            )
            logger.experiment.config.update(dict(config), allow_val_change=True)
        except Exception as error:  # unreachable, not permitted, out of date: none of it may stop a training
            rank_zero_warn(f"Weights & Biases did not start {mode}: {error}")
        else:
            where = (
                logger.experiment.url
                if mode == "online"
                else f"offline; `wandb sync {folder}/wandb/offline-*` uploads it"
            )
            tell(f"W&B: {where}")
            return logger
    return None


def finish(loggers: Iterable[Any]) -> None:
    """Ends the tracking of a run in W&B, so that another can begin in the same process."""
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            logger.experiment.finish()


def run_id(folder: Path) -> str:
    """The W&B id of the run in this folder, made once: a resumed run goes on in the same curve."""
    path = folder / "wandb_id"
    if not path.exists():
        path.write_text(secrets.token_hex(4))
    return path.read_text()
