"""Interventions as they are typed: a value, a shift of each image's own value, or a contrast of two values."""

from cfgen.interventions.parse import Contrast, Shift, as_intervention, parse_intervention

__all__ = ["Contrast", "Shift", "as_intervention", "parse_intervention"]
