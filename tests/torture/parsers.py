"""Every parser of cfgen that is given what somebody typed or what a file holds, with right inputs to damage.

A parser may take an input or refuse it by `UserError`; anything else is a finding.
"""

from tests.torture.data_parsers import OF_DATA
from tests.torture.model_parsers import OF_MODELS
from tests.torture.typed_parsers import TYPED

__all__ = ["PARSERS"]

PARSERS = TYPED | OF_MODELS | OF_DATA
