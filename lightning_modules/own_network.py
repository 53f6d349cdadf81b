"""A network of the user's own as a classifier that can be trained further: whatever it returns, as logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cfgen.classifiers import ClassProbabilities, ExternalClassifier, YesProbability, from_function
from cfgen.classifiers.spec import Layout, Output
from cfgen.errors import UserError
from cfgen.io.classes import require_function
from lightning_modules.classifier import Classifier

__all__ = ["OwnNetwork"]

SURE = 1e-6  # a probability nearer to 0 or 1 has no finite logit


class OwnNetwork(Classifier):
    """The network that MODULE:FUNCTION returns, with its weights; logits, (N,) of yes or (N, classes).

    The function runs the user's code, so it is called only where the user's own config or command names it, or is trusted.

    Args:
        function: MODULE:FUNCTION, which takes no arguments and returns an nn.Module.
        image_shape: (channels, height, width) of the data's images.
        resize, mean, std, layout, output, positive: what the network takes and returns, as in an audit.
    """

    def __init__(
        self,
        function: str,
        image_shape: Sequence[int],
        resize: Sequence[int] | None = None,
        mean: Sequence[float] = (0.0,),
        std: Sequence[float] = (1.0,),
        layout: Layout = "nchw",
        output: Output = "logit",
        positive: int | None = None,
    ) -> None:
        super(Classifier, self).__init__()  # not Classifier's own: the network is the user's
        self.save_hyperparameters()
        self.image_shape = tuple(image_shape)
        if output in ("class", "value"):
            what = "the number of a class" if output == "class" else "a predicted value"
            raise UserError(f"{what} cannot be repaired; logits or probabilities of classes can", "output")
        require_function(function)
        size = None if resize is None else (int(resize[0]), int(resize[-1]))
        spec = ExternalClassifier(function, resize=size, mean=mean, std=std, layout=layout, output=output)
        self.inputs = spec.inputs
        self.external = YesProbability(from_function(function), positive, **self.inputs)
        if not any(parameter.requires_grad for parameter in self.external.parameters()):
            raise UserError(f"{function} returns a network without weights that can be trained", "classifier")
        tried = self.tried()
        self.classes = tried.shape[1] if tried.ndim == 2 else 2

    @torch.no_grad()
    def tried(self) -> Tensor:
        """Logits of two images of noise: refuses a network that cannot take the data's images."""
        images = torch.rand(2, *self.image_shape, generator=torch.Generator().manual_seed(0))
        try:
            return self(images)
        except UserError:
            raise
        except Exception as error:  # whatever the network makes of images that it cannot take
            reason = " ".join(str(error).split())
            raise UserError(
                f"the network fails on images of shape {tuple(self.external.prepare(images).shape)} "
                f"({type(error).__name__}: {reason}). resize, layout, mean and std say what it takes",
                "classifier",
            ) from error

    def forward(self, x: Tensor) -> Tensor:
        external = self.external
        output = external.ask(x)
        if not output.is_floating_point():
            raise UserError(
                f"the network returns whole numbers ({output.dtype}), which cannot be repaired", "classifier"
            )
        positive = external.positive
        if external.output == "multilabel":
            columns = output.reshape(len(output), -1)
            return columns[:, external.column(columns.shape[1], needless=1)]
        if output.ndim == 1:
            logits = output if external.output == "logit" else torch.logit(output, SURE)
            return -logits if positive == 0 else logits
        logits = output if external.output == "logit" else output.clamp(min=SURE).log()
        if positive is None and output.shape[1] > 2:
            return logits
        column = external.column(output.shape[1], needless=2)
        others = torch.cat([logits[:, :column], logits[:, column + 1 :]], dim=1)
        return logits[:, column] - others.logsumexp(dim=1)

    def check(self, x: Tensor) -> None:
        """Refuses a network whose answers for these images are none, as an audit does."""
        external = self.external
        if self.classes > 2:
            names = [str(number) for number in range(self.classes)]
            external = ClassProbabilities(external.network, names, **self.inputs).to(x.device)
        external.check(x)

    def own_state(self, state: dict[str, Any], prefix: str = "") -> dict[str, Tensor]:
        """Of the state dict of a module that has this one inside under `prefix`, the user's network's, by its own names."""
        inside = f"{prefix}external.network."
        # each apart from the others: a file has no shared memory, which tied weights would have
        return {
            name.removeprefix(inside): value.detach().cpu().contiguous().clone()
            for name, value in state.items()
            if name.startswith(inside)
        }
