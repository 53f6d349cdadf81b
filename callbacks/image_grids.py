"""Pictures of what the model does, during training: reconstructions, counterfactuals, interpolations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from matplotlib.figure import Figure
from pytorch_lightning.loggers import WandbLogger

from callbacks.every_n_epochs import EveryNEpochs
from cfgen import figures
from cfgen.attributes import Continuous, Schema
from cfgen.counterfactual import sweep
from cfgen.io.writing import write_atomically

__all__ = ["ImageGrids"]


class ImageGrids(EveryNEpochs):
    """Draws validation images every few epochs into the run's `images/` folder and W&B.

    Args:
        rows: interventions down the counterfactual grid (the paper's Fig. 3), e.g. {label: [1, 4, 6, 9]}.
        columns: interventions across it, e.g. {thickness: [1, 3, 5]}.
        every_n_epochs: draw at the first validation and then at this distance.
        images: how many images the reconstructions show.
    """

    def __init__(
        self,
        rows: Mapping[str, Sequence[Any]],
        columns: Mapping[str, Sequence[Any]],
        every_n_epochs: int = 5,
        images: int = 24,
    ) -> None:
        super().__init__(every_n_epochs)
        self.rows, self.columns, self.images = dict(rows), dict(columns), images

    def check(self, data: Any) -> None:
        """Refuses names and values that the data does not have; called before any data is read."""
        schema = Schema(data.scm_spec["attributes"])
        for name, values in (self.rows | self.columns).items():
            if not isinstance(schema[name], Continuous):  # a continuous value is moved into the range
                for value in values:
                    schema.check_do({name: value})

    def act(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.is_global_zero or not trainer.loggers:
            return
        data: Any = trainer.datamodule  # type: ignore[attr-defined]  # set by Trainer.fit(datamodule=...)
        model: Any = pl_module
        columns = {name: column[: self.images] for name, column in data.columns("val").items()}
        batch = next(sweep(model, data.images("val")[: self.images], columns, batch_size=self.images))
        self.show(trainer, "reconstructions", figures.reconstructions(batch))
        self.show(trainer, "counterfactuals", figures.counterfactual_grid(batch, self.rows, self.columns))
        self.show(trainer, "interpolations", figures.interpolations(batch, min(6, len(batch) // 2)))

    def show(self, trainer: pl.Trainer, name: str, figure: Figure) -> None:
        folder = Path(str(trainer.loggers[0].save_dir)) / "images"
        path = folder / f"epoch={trainer.current_epoch:03d}-{name}.png"
        write_atomically(path, lambda file: figure.savefig(file, format="png", dpi=160))
        for logger in trainer.loggers:
            if isinstance(logger, WandbLogger):
                logger.log_image(f"val/{name}", [str(path)], step=trainer.global_step)
