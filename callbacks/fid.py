"""Fréchet distance of generated and counterfactual images from real ones, during training (Table 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytorch_lightning as pl
import torch
from torch import nn

from callbacks.every_n_epochs import EveryNEpochs
from cfgen import metrics
from cfgen.attributes import Continuous, Schema
from cfgen.errors import UserError
from cfgen.metrics.fid import fids, intervention_name
from cfgen.networks.features import feature_network, network_name

__all__ = ["FID"]


class FID(EveryNEpochs):
    """Against real validation images: `val/fid_NETWORK/generated`, and `val/fid_NETWORK/do(Bangs=1)` for each intervention.

    Generated images have latents from the prior and the real images' attributes.  Counterfactuals are of those images
    that lack the values asked for: the others would come back as reconstructions.  All are compared with the same real
    images, whose statistics are computed once.  FID of few images is too high: a value says something beside others with
    the same network and number of images, and published figures take 10,000 or more.

    Args:
        do: interventions, e.g. [{Black_Hair: 1}, {Bangs: 1}].
        images: how many validation images are used, at most.
        every_n_epochs: measure at the first validation and then at this distance.
        features: `inception`, which published figures need and which is downloaded once; `efficientnet_lite0`, which
            installs from PyPI; or `module:callable`, which returns a module of your own that turns float images
            (N, 3, H, W) in [0, 1] into (N, num_features).
        seed: of the latents drawn and of the noise abducted.
    """

    def __init__(
        self,
        do: Sequence[Mapping[str, int | float | str]] = (),
        images: int = 2000,
        every_n_epochs: int = 5,
        features: str = "inception",
        seed: int = 0,
    ) -> None:
        super().__init__(every_n_epochs)
        if images < 2:
            raise ValueError(f"images is at least 2, not {images}")
        self.do, self.images, self.features, self.seed = [dict(values) for values in do], images, features, seed
        self.network: nn.Module | None = None
        self.metric: metrics.FID | None = None

    @property
    def state_key(self) -> str:
        return self._generate_state_key(features=self.features)  # so that two networks can be had in one run

    def check(self, data: Any) -> None:
        """Refuses names and values that the data does not have, and a network that cannot be had; before data is read."""
        schema = Schema(data.scm_spec["attributes"])
        for do in self.do:
            if not do:
                raise ValueError("an intervention of FID's `do` sets no attribute")
            for name, value in do.items():
                if not isinstance(schema[name], Continuous):  # whose range is known once data is read
                    schema.check_do({name: value})
        self.network = self.network or feature_network(self.features)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Refuses what cannot be measured on this data, before training starts."""
        if stage not in ("fit", "validate"):
            return
        data: Any = trainer.datamodule  # type: ignore[attr-defined]  # set by Trainer.fit(datamodule=...)
        x = data.images("val")[: self.images]
        columns = {name: column[: self.images] for name, column in data.columns("val").items()}
        try:
            self.check(data)
            wanted = {intervention_name(do): data.schema.check_do(do) for do in self.do}
        except ValueError as error:
            raise UserError(str(error)) from error
        changed = {"generated": len(x)}
        for key, values in wanted.items():
            lacking = torch.stack([columns[name] != value for name, value in values.items()]).any(dim=0)
            changed[key] = int(lacking.sum())
        for key, count in changed.items():
            if count < 2:
                raise UserError(
                    f"FID of {key}: only {count} of the {len(x)} validation images used can be made that way; it needs 2 or more"
                )
        assert self.network is not None
        self.metric = metrics.FID(self.network)  # anew: the real images may be others
        self.metric.check(x[:2])

    def act(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert self.metric is not None
        data: Any = trainer.datamodule  # type: ignore[attr-defined]  # set by Trainer.fit(datamodule=...)
        model: Any = pl_module
        columns = {name: column[: self.images] for name, column in data.columns("val").items()}
        x, share = data.images("val")[: self.images], (trainer.global_rank, trainer.world_size)
        # sums are in double precision, which Apple's GPUs do not have
        metric = self.metric.to("cpu" if pl_module.device.type == "mps" else pl_module.device)
        values = fids(metric, model, x, columns, self.do, self.seed, share)
        name = network_name(self.features)
        # every process has reduced them already
        pl_module.log_dict({f"val/fid_{name}/{key}": value.to(pl_module.device) for key, value in values.items()})
