"""cfgen: counterfactual images from a causal graph (ImageCFGen), in PyTorch Lightning.

>>> import cfgen
>>> model = cfgen.load("morphomnist-hvae")  # comes with cfgen; or a run, a checkpoint, an exported folder
>>> x, a = model.examples()
>>> model.counterfactual(x, a, do={"thickness": 3.0}).images.shape
torch.Size([16, 1, 28, 28])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cfgen.api import CounterfactualModel, ExternalClassifier, compare, load, train

__all__ = ["CounterfactualModel", "ExternalClassifier", "compare", "load", "train"]


def __getattr__(name: str) -> Any:
    """The public names, imported when they are asked for: `import cfgen` and `cfgen --help` stay light."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cfgen import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
