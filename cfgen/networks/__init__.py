"""Networks: Appendix D's tables as code and what they are built from."""

from cfgen.networks.ali import AttributePredictor, Discriminator, Encoder, Generator, ModulatedGenerator
from cfgen.networks.average import MovingAverage
from cfgen.networks.style import StyleGenerator
from cfgen.networks.tables import CELEBA, MORPHO_MNIST, Tables, tables_for

__all__ = [
    "CELEBA",
    "MORPHO_MNIST",
    "AttributePredictor",
    "Discriminator",
    "Encoder",
    "Generator",
    "ModulatedGenerator",
    "MovingAverage",
    "StyleGenerator",
    "Tables",
    "tables_for",
]
