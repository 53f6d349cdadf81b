"""Adversarial training in Lightning: two players, each with an optimiser of its own."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from cfgen import losses
from cfgen.errors import UserError
from cfgen.networks import moving_average
from lightning_modules.decay import cosine_schedule
from lightning_modules.image_mechanism import ImageMechanismModule

__all__ = ["TwoOptimisers"]


class TwoOptimisers(ImageMechanismModule):
    """An image mechanism trained as a game between two players, who take turns within a batch.

    `with self.updating(player) as step:` gives one player the turn: only its networks take gradients inside, and
    `step(loss)` moves them.  One batch is one step of the Trainer: Lightning by itself counts every player's step, and
    `max_steps`, checkpoints and loggers would all be out by a factor of two.

    Under DDP each `step` reduces the gradients of the player in turn; the other's are unused there, which the strategy
    has to be told: `ddp_find_unused_parameters_true`.  The replicas then take the same steps and stay identical.
    """

    training_only: ClassVar[tuple[str, ...]] = ()  # networks that an export leaves out

    def __init__(
        self,
        scm: dict[str, Any],
        image_shape: Sequence[int],
        lr: float,
        betas: tuple[float, float],
        lr_decay: bool,
        ema_decay: float,
    ) -> None:
        super().__init__(scm, image_shape)
        if not 0 <= ema_decay < 1:
            raise UserError(f"ema_decay is 0 (no average) or a number below 1, not {ema_decay}")
        self.automatic_optimization = False
        self.lr, self.betas, self.lr_decay, self.ema_decay = lr, (betas[0], betas[1]), lr_decay, ema_decay
        self.clip = 0.0  # the norm to which gradients are cut, where not 0
        self.averages = nn.ModuleDict()
        self.rates: dict[nn.Module, float] = {}  # what the learning rate of a network is multiplied by, where not 1

    @abstractmethod
    def players(self) -> dict[str, list[nn.Module]]:
        """Each player's networks, in the order of their turns: the last turn ends a batch."""

    @contextmanager
    def updating(self, player: str) -> Iterator[Callable[[Tensor], None]]:
        """Gives `player` the turn: yields `step(loss)`, and nobody else's networks take gradients inside."""
        players = self.players()
        others = [
            parameter
            for name, networks in players.items()
            if name != player
            for network in networks
            for parameter in network.parameters()
            if parameter.requires_grad
        ]
        for parameter in others:
            parameter.requires_grad_(False)
        try:
            yield partial(self._step, list(players).index(player), last=player == list(players)[-1])
        finally:
            for parameter in others:
                parameter.requires_grad_(True)

    def _step(self, index: int, loss: Tensor, last: bool) -> None:
        optimiser: Any = listed(self.optimizers())[index]
        optimiser.zero_grad()
        self.manual_backward(loss)
        if self.clip:
            self.clip_gradients(optimiser, gradient_clip_val=self.clip, gradient_clip_algorithm="norm")
        if last:
            optimiser.step()
            for name, average in self.averages.items():
                average.update_parameters(getattr(self, name))  # type: ignore[operator]
        else:
            # what optimiser.step() does (mixed precision included), except that the Trainer does not count it
            self.trainer.strategy.optimizer_step(optimiser.optimizer, lambda: None)

    def keep_average(self, *names: str) -> None:
        """Keeps a moving average of these networks, for `averaged`, if `ema_decay` asks for one."""
        if self.ema_decay:
            self.averages.update({name: moving_average(getattr(self, name), self.ema_decay) for name in names})

    def load_state_dict(self, state_dict: Mapping[str, Any], *arguments: Any, **options: Any) -> Any:
        """Also what was saved when averages were kept under other names."""
        renamed = {
            re.sub(r"^(averages\.\w+\.)(?:network|updates)\b", new_name, name): value
            for name, value in state_dict.items()
        }
        return super().load_state_dict(renamed, *arguments, **options)

    def keep_inference_only(self) -> None:
        """Forgets what only the game needs, and the networks themselves where their averages are evaluated."""
        for name, average in self.averages.items():
            setattr(self, name, average.module)
        self.averages = nn.ModuleDict()
        for name in self.training_only:
            self._modules.pop(name, None)

    def r1_penalty(self, critic: nn.Module, inputs: Sequence[Tensor], a: Tensor) -> Tensor:
        """R1 of a critic at real inputs with attributes a, in full precision: its squared gradients leave half precision's
        range."""
        with torch.autocast(a.device.type, enabled=False):
            inputs = [tensor.detach().to(self.dtype).requires_grad_() for tensor in inputs]
            return losses.r1(critic(*inputs, a.to(self.dtype)), inputs)

    def averaged(self, name: str) -> nn.Module:
        """The network to use: itself in training, its moving average (where one is kept) in evaluation."""
        return self.averages[name] if name in self.averages and not self.training else getattr(self, name)

    def configure_optimizers(self) -> Any:
        optimisers = [
            torch.optim.Adam(
                [{"params": list(net.parameters()), "lr": self.lr * self.rates.get(net, 1.0)} for net in networks],
                self.lr,
                self.betas,
            )
            for networks in self.players().values()
        ]
        if not self.lr_decay:
            return optimisers
        return optimisers, [cosine_schedule(self, optimiser) for optimiser in optimisers]

    def on_train_batch_end(self, *_: Any) -> None:
        for scheduler in listed(self.lr_schedulers()) if self.lr_decay else []:
            scheduler.step()

    def on_fit_start(self) -> None:
        super().on_fit_start()
        if self._compiler_ctx is not None:
            raise UserError(
                f"torch.compile of a whole {type(self).__name__} cannot follow two optimisers in one step: compile its "
                "networks instead, e.g. model.G.compile() and model.E.compile(), before fitting"
            )


def listed(found: Any) -> list[Any]:
    """What Lightning returns for several as a list, for one by itself and for none as None."""
    return found if isinstance(found, list) else [] if found is None else [found]


def new_name(match: re.Match[str]) -> str:
    return match[1] + ("module" if match[0].endswith("network") else "n_averaged")
