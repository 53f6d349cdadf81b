"""How strongly a model draws what an intervention sets, by a predictor's readings.  Files are imported when a name is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cfgen.lazy import lazy_names

if TYPE_CHECKING:
    from cfgen.audit.strength._calibrate import calibrate, effects_on_readings, interventions_on_all, read_pictures
    from cfgen.audit.strength._choose import Judge, calibrated_strength, check_predictor, choose_predictor
    from cfgen.audit.strength._measured import judged_attributes, measured_strength
    from cfgen.audit.strength._reading import log_odds, output_names, read, same_kind

__all__ = [
    "Judge", "calibrate", "calibrated_strength", "check_predictor", "choose_predictor", "effects_on_readings",
    "interventions_on_all", "judged_attributes", "log_odds", "measured_strength", "output_names", "read", "read_pictures",
    "same_kind",
]  # fmt: skip

_NAMES = {
    "_calibrate": "calibrate effects_on_readings interventions_on_all read_pictures",
    "_choose": "Judge calibrated_strength check_predictor choose_predictor",
    "_measured": "judged_attributes measured_strength",
    "_reading": "log_odds output_names read same_kind",
}
__getattr__, __dir__ = lazy_names(__name__, {name: file for file, names in _NAMES.items() for name in names.split()})
