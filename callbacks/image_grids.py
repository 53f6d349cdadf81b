"""Pictures of what the model does, during training: reconstructions, counterfactuals, interpolations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from matplotlib.figure import Figure
from pytorch_lightning.loggers import WandbLogger

from cfgen import figures
from cfgen.attributes import Continuous, Schema
from cfgen.counterfactual import as_unit_float

__all__ = ["ImageGrids"]


class ImageGrids(pl.Callback):
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
        self.rows, self.columns = dict(rows), dict(columns)
        self.every_n_epochs, self.images = every_n_epochs, images
        self.drawn_at: int | None = None

    def check(self, schema: Schema) -> None:
        """Refuses names and values that the data does not have; called before any data is read."""
        for name, values in (self.rows | self.columns).items():
            if not isinstance(schema[name], Continuous):  # a continuous value is moved into the range
                for value in values:
                    schema.check_do({name: value})

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        due = self.drawn_at is None or trainer.current_epoch - self.drawn_at >= self.every_n_epochs
        if trainer.sanity_checking or not due:
            return
        self.drawn_at = trainer.current_epoch
        if not trainer.is_global_zero or not trainer.loggers:
            return
        data: Any = trainer.datamodule  # type: ignore[attr-defined]  # set by Trainer.fit(datamodule=...)
        model: Any = pl_module
        x = as_unit_float(data.images("val")[: self.images].to(pl_module.device))
        columns = {name: column[: self.images].to(pl_module.device) for name, column in data.columns("val").items()}
        a = model.scm.schema.encode(columns)
        self.show(trainer, "reconstructions", figures.reconstructions(model, x, a))
        grid = figures.counterfactual_grid(model, model.scm, x[:1], a[:1], self.rows, self.columns)
        self.show(trainer, "counterfactuals", grid)
        pairs = min(6, len(x) // 2)
        self.show(trainer, "interpolations", figures.interpolations(model, x, a, pairs))

    def show(self, trainer: pl.Trainer, name: str, figure: Figure) -> None:
        folder = Path(str(trainer.loggers[0].save_dir)) / "images"
        folder.mkdir(exist_ok=True)
        path = folder / f"epoch={trainer.current_epoch:03d}-{name}.png"
        figure.savefig(path, dpi=160)
        for logger in trainer.loggers:
            if isinstance(logger, WandbLogger):
                logger.log_image(f"val/{name}", [str(path)], step=trainer.global_step)

    def state_dict(self) -> dict[str, int | None]:
        return {"drawn_at": self.drawn_at}

    def load_state_dict(self, state_dict: dict[str, int | None]) -> None:
        self.drawn_at = state_dict["drawn_at"]
