"""CyclicEncoder: cyclic cost minimisation (Section 3), which turns StyleALI into CSALI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from cfgen import losses
from cfgen.batch import Batch
from cfgen.checkpoints import module_of, spec_of
from cfgen.contracts import Noise, State
from lightning_modules.cond_ali import CondALI
from lightning_modules.decay import decaying
from lightning_modules.frozen import expect_evaluation_mode
from lightning_modules.image_mechanism import ImageMechanismModule

__all__ = ["CyclicEncoder"]


class CyclicEncoder(ImageMechanismModule):
    """Fixes G of a trained ALI and fine-tunes E on L_x = |x - G(E(x,a),a)| and L_z = |z - E(G(z,a),a)|, z ~ N(0, 1).

    Args:
        scm: the attributes and their causal graph; comes from the data.
        image_shape: (channels, height, width); comes from the data.
        mechanism: the trained CondALI or StyleALI: a run, or a config whose run is used where it is finished and trained
            first where it is not.
        weight_x: weight of L_x.
        weight_z: weight of L_z.
        norm_x: the power in L_x; 2, the paper's, is the mean squared error.
        norm_z: the power in L_z; 1, the paper's, is the mean absolute error.
        lr: Adam's learning rate.
        betas: Adam's decay rates.
        lr_decay: lower the learning rate to 0 along a cosine until training ends.
    """

    earlier_runs: ClassVar[tuple[str, ...]] = ("mechanism",)

    def __init__(
        self,
        scm: dict[str, Any],
        image_shape: Sequence[int],
        mechanism: str | Mapping[str, Any],
        weight_x: float = 1.0,
        weight_z: float = 1.0,
        norm_x: float = 2.0,
        norm_z: float = 1.0,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.5, 0.999),
        lr_decay: bool = False,
    ) -> None:
        super().__init__(scm, image_shape)
        ali = module_of(mechanism, CondALI)
        self.save_hyperparameters(ignore=["mechanism"])
        self.hparams["mechanism"] = spec_of(ali)  # a checkpoint of this module is whole: it needs no other run
        if isinstance(mechanism, str):
            ali.require_fit_for(scm, image_shape, "mechanism", mechanism)
        elif ali.image_shape != self.image_shape:
            raise ValueError(f"image_shape is {self.image_shape}, and that of the mechanism {ali.image_shape}")
        ali.keep_inference_only()
        self.scm = ali.scm  # fitted already
        del ali.scm
        self.ali = ali.eval()
        self.ali.E.requires_grad_(True)
        self.ali.G.requires_grad_(False)
        self.weight_x, self.weight_z, self.norm_x, self.norm_z = weight_x, weight_z, norm_x, norm_z
        self.lr, self.betas, self.lr_decay = lr, (betas[0], betas[1]), lr_decay

    def train(self, mode: bool = True) -> CyclicEncoder:
        """Batch norm keeps the statistics it has: G's must not move, and E sees real and generated images in turn."""
        super().train(mode)
        self.ali.eval()
        return self

    def on_fit_start(self) -> None:
        super().on_fit_start()
        expect_evaluation_mode()

    def abduct(self, x: Tensor, a: Tensor, noise: Noise | None = None) -> State:
        return self.ali.abduct(x, a, noise)

    def decode(self, z: State, a: Tensor) -> Tensor:
        return self.ali.decode(z, a)

    def prior(self, a: Tensor, noise: Noise | None = None) -> State:
        return self.ali.prior(a, noise)

    def latent(self, state: State) -> Tensor:
        return self.ali.latent(state)

    def training_step(self, batch: Batch, _: int) -> Tensor:
        x, a = batch.x, batch.a
        with torch.no_grad():
            state = self.prior(a)
            x_z = self.decode(state, a)
        x_r = self.decode(self.abduct(x, a), a)
        loss_x = losses.distance(x, x_r, self.norm_x)
        loss_z = losses.distance(self.latent(state), self.latent(self.abduct(x_z, a)), self.norm_z)
        self.log_dict({"train/loss_x": loss_x.detach(), "train/loss_z": loss_z.detach()}, prog_bar=True)
        return self.weight_x * loss_x + self.weight_z * loss_z

    def validation_step(self, batch: Batch, _: int) -> None:
        errors = {f"val/{name}": value for name, value in self.ali.cycle_errors(batch.x, batch.a).items()}
        self.log_dict(errors, batch_size=len(batch.x), sync_dist=True)

    def configure_optimizers(self) -> Any:
        optimiser = torch.optim.Adam(self.ali.E.parameters(), self.lr, self.betas)
        return decaying(self, optimiser) if self.lr_decay else optimiser
