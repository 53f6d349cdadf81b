"""The known SCM of the synthetic faces: attributes, everything else about a face, and the biased label `Attractive`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = [
    "ATTRIBUTES",
    "EDGES",
    "EYES",
    "HAIR_COLOURS",
    "INTERCEPT",
    "PROBABILITIES",
    "SHOWN_WITH",
    "TARGET",
    "WEIGHTS",
    "Population",
    "attractiveness",
    "draw",
]

# p(attribute = 1), or p for Young = 0 and for Young = 1; the names and their order are CelebA's
PROBABILITIES: dict[str, float | tuple[float, float]] = {
    "Bangs": 0.30,
    "Big_Nose": 0.30,
    "Black_Hair": 0.30,
    "Blond_Hair": 0.25,
    "Brown_Hair": 0.30,
    "Bushy_Eyebrows": 0.30,
    "Eyeglasses": (0.45, 0.12),
    "Gray_Hair": (0.55, 0.05),
    "Mouth_Slightly_Open": 0.45,
    "Pale_Skin": 0.35,
    "Receding_Hairline": (0.45, 0.08),
    "Smiling": 0.50,
    "Wearing_Earrings": 0.30,
    "Wearing_Lipstick": 0.40,
    "Young": 0.65,
}
ATTRIBUTES = tuple(PROBABILITIES)
TARGET = "Attractive"
# Appendix O: age shows in these three
EDGES = [["Young", name] for name, p in PROBABILITIES.items() if isinstance(p, tuple)]

# logit p(Attractive = 1) = INTERCEPT + sum of the weights of the attributes that are present + EYES * eye size
INTERCEPT = -1.3
WEIGHTS = {
    "Big_Nose": -0.5,
    "Black_Hair": 0.3,
    "Blond_Hair": -0.2,
    "Brown_Hair": 0.5,
    "Eyeglasses": -0.6,
    "Gray_Hair": -0.6,
    "Pale_Skin": 1.0,
    "Receding_Hairline": -0.8,
    "Smiling": 0.6,
    "Wearing_Lipstick": 0.4,
    "Young": 1.2,
}
EYES = 0.8

# what of a face is seen only with an attribute; the red of natural hair, only without any of the hair colours
SHOWN_WITH = {
    "glasses": "Eyeglasses",
    "glasses_hue": "Eyeglasses",
    "jewel": "Wearing_Earrings",
    "lipstick": "Wearing_Lipstick",
}
HAIR_COLOURS = ("Black_Hair", "Blond_Hair", "Brown_Hair", "Gray_Hair")

# What a face is beside its attributes.  "uniform" lies in [0, 1), "normal" is standard; the painter gives them a scale.
_STATE = {
    "shift_x": "uniform",
    "shift_y": "uniform",
    "roll": "normal",
    "scale": "uniform",
    "width": "uniform",
    "height": "uniform",
    "jaw": "uniform",
    "tone": "uniform",
    "warmth": "uniform",
    "style": "uniform",
    "volume": "uniform",
    "wave": "uniform",
    "phase": "uniform",
    "parting": "uniform",
    "natural": "uniform",
    "hairline": "uniform",
    "eyes": "normal",  # the visible quality that no attribute names and the label rewards
    "spacing": "uniform",
    "iris": "uniform",
    "gaze": "normal",
    "brow": "uniform",
    "tilt": "normal",
    "brow_shade": "uniform",
    "nose": "uniform",
    "mouth_width": "uniform",
    "lips": "uniform",
    "lipstick": "uniform",
    "glasses": "uniform",
    "glasses_hue": "uniform",
    "jewel": "uniform",
    "background": "uniform",
    "backdrop": "uniform",
    "light": "normal",
    "shirt": "uniform",
    "shirt_shade": "uniform",
}
_DTYPE = np.dtype([(name, np.float64) for name in _STATE])


@dataclass(frozen=True)
class Population:
    """Rows drawn from the SCM: the noise of each attribute and of the label (uniform), and the state of each face."""

    noise: dict[str, np.ndarray]
    label_noise: np.ndarray
    state: np.ndarray

    def __len__(self) -> int:
        return len(self.state)

    def __getitem__(self, rows: slice | np.ndarray) -> Population:
        noise = {name: u[rows] for name, u in self.noise.items()}
        return Population(noise, self.label_noise[rows], self.state[rows])

    def attributes(self, do: Mapping[str, Any] | None = None) -> dict[str, np.ndarray]:
        """a_k = [u_k < p_k(Young)] for every attribute, 0 or 1, or what `do` sets: the structural assignments."""
        do = do or {}
        found: dict[str, np.ndarray] = {}
        for name in sorted(ATTRIBUTES, key=lambda name: name != "Young"):  # the cause first
            p = PROBABILITIES[name]
            threshold = np.where(found["Young"] == 1, p[1], p[0]) if isinstance(p, tuple) else p
            value = do[name] if name in do else self.noise[name] < threshold
            found[name] = np.broadcast_to(value, len(self)).astype(np.int64)
        return {name: found[name] for name in ATTRIBUTES}

    def redrawn(self, seed: int) -> Population:
        """Other faces that look the same: all that their images do not tell is drawn anew, given what they tell.

        That is the look of glasses, earrings and lipstick they do not wear, their natural hair colour under another, and
        the noise of their attributes.
        """
        stream, attributes = np.random.default_rng(seed), self.attributes()
        noise = {}
        for name, present in attributes.items():
            p = PROBABILITIES[name]
            threshold = np.where(attributes["Young"] == 1, p[1], p[0]) if isinstance(p, tuple) else p
            u = stream.random(len(self))
            noise[name] = np.where(present == 1, u * threshold, threshold + u * (1 - threshold))
        state = self.state.copy()
        hidden = {factor: attributes[name] == 0 for factor, name in SHOWN_WITH.items()}
        hidden["natural"] = np.any([attributes[name] == 1 for name in HAIR_COLOURS], axis=0)
        for factor, unseen in hidden.items():
            state[factor] = np.where(unseen, stream.random(len(self)), state[factor])
        return Population(noise, self.label_noise, state)

    def label(self, attributes: Mapping[str, np.ndarray]) -> np.ndarray:
        """`Attractive` of these faces, had they these attributes: y = [u < p], 0 or 1."""
        return (self.label_noise < attractiveness(attributes, self.state["eyes"])).astype(np.int64)


def attractiveness(attributes: Mapping[str, np.ndarray], eyes: np.ndarray) -> np.ndarray:
    """p(Attractive = 1) given the attributes and the size of the eyes: a logistic model, biased on purpose."""
    logit = INTERCEPT + EYES * eyes
    for name, weight in WEIGHTS.items():
        logit = logit + weight * attributes[name]
    return 1.0 / (1.0 + np.exp(-logit))


def draw(rows: int, seed: int) -> Population:
    """New faces.  Every quantity has a stream of its own, so fewer rows are the first of more."""
    streams = iter(np.random.default_rng([seed, stream]) for stream in range(len(ATTRIBUTES) + 1 + len(_STATE)))
    noise = {name: next(streams).random(rows) for name in ATTRIBUTES}
    label_noise = next(streams).random(rows)
    state = np.empty(rows, dtype=_DTYPE)
    for name, law in _STATE.items():
        stream = next(streams)
        # beyond two deviations a face would come apart
        state[name] = stream.random(rows) if law == "uniform" else np.clip(stream.normal(size=rows), -2.2, 2.2)
    return Population(noise, label_noise, state)
