"""Networks: Appendix D's tables as code and what they are built from."""

from cfgen.networks.ali import (
    DISCRIMINATORS,
    ENCODERS,
    GENERATORS,
    AttributePredictor,
    Discriminator,
    Encoder,
    Generator,
    ModulatedGenerator,
)
from cfgen.networks.average import moving_average
from cfgen.networks.style import StyleGenerator
from cfgen.networks.tables import CELEBA, MORPHO_MNIST, Tables, tables_for

__all__ = [
    "CELEBA",
    "DISCRIMINATORS",
    "ENCODERS",
    "GENERATORS",
    "MORPHO_MNIST",
    "AttributePredictor",
    "Discriminator",
    "Encoder",
    "Generator",
    "ModulatedGenerator",
    "StyleGenerator",
    "Tables",
    "moving_average",
    "tables_for",
]
