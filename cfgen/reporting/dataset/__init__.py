"""What is in a data set: counts, kinds, a sheet of images, associations, whether the graph fits, and overlap."""

from cfgen.reporting.dataset.look import DataReport, look

__all__ = ["DataReport", "look"]
