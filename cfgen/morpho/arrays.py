"""Array types and the checks that every public function makes first."""

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Words: TypeAlias = NDArray[np.uint32]
Ints: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

_LARGEST_SIDE = 8192  # squared distances across an enlarged image must fit into 32 bits
_SLACK = 1e-3  # how far outside [0, 1] a generator's rounding may put a pixel


def as_images(images: object, scale: int) -> NDArray[np.generic]:
    """A stack of images `(N, H, W)`, uint8 or float, from an array or a tensor; no pixel is looked at or copied."""
    if hasattr(images, "detach"):
        images = images.detach().cpu().numpy()
    array = np.asarray(images)
    if array.ndim != 3:
        raise ValueError(f"images must be a stack (N, H, W), got shape {array.shape}; one image is images[None]")
    if array.dtype != np.uint8 and not np.issubdtype(array.dtype, np.floating):
        raise ValueError(f"images must be uint8 in 0..255 or float in [0, 1], got {array.dtype}")
    if scale * max(array.shape[1:]) > _LARGEST_SIDE:
        raise ValueError(f"images may have sides of up to {_LARGEST_SIDE // scale} pixels, got {array.shape[1:]}")
    return array


def to_bytes(images: NDArray[np.generic]) -> Bytes:
    """A fresh 8-bit copy; floats in [0, 1] go to the nearest of the 256 levels."""
    if images.dtype == np.uint8:
        return np.array(images, np.uint8, order="C")
    if not np.isfinite(images).all():
        raise ValueError("images contain NaN or infinite pixels")
    if images.size and (images.min() < -_SLACK or images.max() > 1 + _SLACK):
        raise ValueError(f"float images must lie in [0, 1], got {images.min():.4g} to {images.max():.4g}")
    return np.rint(np.clip(images.astype(np.float64), 0, 1) * 255).astype(np.uint8, order="C")


def as_targets(targets: ArrayLike, count: int, name: str, lowest: float, highest: float) -> Floats:
    """One target an image, from a scalar or `count` values in [lowest, highest]."""
    values = np.asarray(targets, np.float64)
    if values.shape not in ((), (count,)):
        raise ValueError(f"{name} must be one number or one for each of {count} images, got shape {values.shape}")
    if not (np.isfinite(values).all() and (values >= lowest).all() and (values <= highest).all()):
        raise ValueError(f"{name} must be finite and lie in [{lowest:.4g}, {highest:.4g}]")
    return np.broadcast_to(values, (count,))
