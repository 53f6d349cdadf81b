"""The human evaluation of Appendix L: can people tell which picture was edited?

>>> from cfgen.study.statistics import wilson
>>> low, high = wilson(340, 660, 1.96)
>>> f"{low:.3f} to {high:.3f}"
'0.477 to 0.553'
"""

from __future__ import annotations

from cfgen.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    "cfgen.study", {"Study": "design", "new_study": "making", "analyse": "analysis", "simulated_lines": "simulation"}
)
