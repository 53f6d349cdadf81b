"""Interventions: set attributes to values, shift them, contrast two values, or toggle one; light to import."""

from cfgen.interventions._base import Arm, Intervention
from cfgen.interventions._exposure import ContrastExposure, Exposure, Mask, ShiftExposure
from cfgen.interventions._parse import parse_intervention
from cfgen.interventions._set import Set
from cfgen.interventions._shift import Contrast, Shift
from cfgen.interventions._toggle import Toggle

__all__ = [
    "Arm",
    "Contrast",
    "ContrastExposure",
    "Exposure",
    "Intervention",
    "Mask",
    "Set",
    "Shift",
    "ShiftExposure",
    "Toggle",
    "parse_intervention",
]
