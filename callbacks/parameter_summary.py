"""How large a model is, said in a line when training starts."""

from __future__ import annotations

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ModelSummary
from pytorch_lightning.utilities.rank_zero import rank_zero_info
from torch import nn

__all__ = ["ParameterSummary"]


class ParameterSummary(ModelSummary):
    """In place of Lightning's table, which counts operations and modes that say nothing about these models."""

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._max_depth:  # 0 is how Lightning asks for none
            rank_zero_info(in_words(pl_module))


def in_words(module: nn.Module) -> str:
    """The parameters to train, by network, largest first, and those that are kept as they are.

    >>> in_words(nn.ModuleDict({"G": nn.Linear(999, 2), "E": nn.Linear(99, 1)}))
    'ModuleDict: 2.1 k parameters to train (G 2.0 k, E 100)'
    """
    sizes = {name: count(part, trained=True) for name, part in module.named_children()}
    parts = [f"{name} {short(size)}" for name, size in sorted(sizes.items(), key=lambda item: -item[1]) if size]
    named = f" ({', '.join(parts)})" if len(parts) > 1 else ""
    kept = count(module, trained=False)
    others = f", and {short(kept)} that are kept as they are or as moving averages" if kept else ""
    return f"{type(module).__name__}: {short(count(module, trained=True))} parameters to train{named}{others}"


def count(module: nn.Module, trained: bool) -> int:
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad == trained)


def short(number: int) -> str:
    """
    >>> [short(number) for number in (0, 999, 2000, 1_250_000)]
    ['0', '999', '2.0 k', '1.2 M']
    """
    if number < 1000:
        return str(number)
    return f"{number / 1e6:.1f} M" if number >= 999_950 else f"{number / 1e3:.1f} k"
