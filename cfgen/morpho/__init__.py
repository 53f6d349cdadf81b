"""Morphometry of digits: measure and set thickness, intensity and slant, as Morpho-MNIST and DeepSCM define them.

`measure` gives the numbers of the public Morpho-MNIST tool; `set_thickness` and `set_intensity` rebuild the published
set (thickness → intensity) from MNIST and its labels. `benchmarks/morphometry.py` has the speed beside scikit-image's.

Compiled with Numba: the work is short loops over small arrays (a distance transform, thinning in order of distance),
which neither NumPy nor PyTorch expresses, and Numba needs no compiler on the user's machine. Code is compiled at the
first call and cached beside the package. No compiled function calls into another file, because Numba's cache would not
notice that the other file has changed.
"""

from cfgen.morpho.measuring import MEASURES, measure
from cfgen.morpho.setting import set_intensity, set_slant, set_thickness

__all__ = ["MEASURES", "measure", "set_intensity", "set_slant", "set_thickness"]
