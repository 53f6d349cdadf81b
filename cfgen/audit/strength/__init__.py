"""How strongly a model draws what an intervention sets, by a predictor's readings.  Files are imported when a name is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cfgen.lazy import lazy_names

if TYPE_CHECKING:
    from cfgen.audit.strength._calibrate import calibrate, effects_on_readings, interventions_on_all, read_pictures
    from cfgen.audit.strength._calibration import AttributeCalibration, Calibration, model_fingerprint, read_calibration
    from cfgen.audit.strength._choose import Judge, calibrated_strength, check_predictor, choose_predictor
    from cfgen.audit.strength._measured import judged_attributes, measured_strength
    from cfgen.audit.strength._predictor import OwnPredictor, accuracies, own_predictor
    from cfgen.audit.strength._reading import log_odds, output_names, read, same_kind
    from cfgen.audit.strength._strength import Strength, slope_strength, strength

__all__ = [
    "AttributeCalibration", "Calibration", "Judge", "OwnPredictor", "Strength", "accuracies", "calibrate",
    "calibrated_strength", "check_predictor", "choose_predictor", "effects_on_readings", "interventions_on_all",
    "judged_attributes", "log_odds", "measured_strength", "model_fingerprint", "output_names", "own_predictor",
    "read", "read_calibration", "read_pictures", "same_kind", "slope_strength", "strength",
]  # fmt: skip

_NAMES = {
    "_calibrate": "calibrate effects_on_readings interventions_on_all read_pictures",
    "_calibration": "AttributeCalibration Calibration model_fingerprint read_calibration",
    "_choose": "Judge calibrated_strength check_predictor choose_predictor",
    "_measured": "judged_attributes measured_strength",
    "_predictor": "OwnPredictor accuracies own_predictor",
    "_reading": "log_odds output_names read same_kind",
    "_strength": "Strength slope_strength strength",
}
__getattr__, __dir__ = lazy_names(__name__, {name: file for file, names in _NAMES.items() for name in names.split()})
