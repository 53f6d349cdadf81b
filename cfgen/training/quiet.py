"""What other packages say during training that does not apply here, each with its reason."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["quiet"]

WARNINGS = (
    ".*Checkpoint directory .* exists and is not empty.*",  # it holds the run's config and scalars
    ".*dirpath has changed.*",  # a new run from another's checkpoint: it has a folder and a best of its own
    ".*isinstance.treespec, LeafSpec.*",  # Lightning's own use of torch
    ".*smaller than the logging interval.*",  # small data: what is logged once an epoch is enough
    ".*does not have many workers.*",  # batches come from memory: workers would only copy them
    ".*in eval mode at the start of training.*",  # an earlier run's model that stays as it is
    ".*could not find the monitored key.*",  # before the first validation; last.ckpt is written all the same
    ".*checkpoint that ended before the epoch ended.*",  # the loader is wound forward
    ".*Starting from v1.9.0, `tensorboardX`.*",  # scalars go to a CSV file
)

LINES = (
    "litlogger",  # other products of Lightning's makers
    "model summary callbacks",  # the model's size is told in a line of our own
    "TPU available",
    "to estimate number of stepping batches",  # the schedule of the learning rate asks for it
)


@contextmanager
def quiet() -> Iterator[None]:
    """Leaves out hints of other packages that do not apply to training here."""
    # Lightning 2.6 calls jsonargparse in ways that version 5 will remove; pyproject keeps it below
    os.environ.setdefault("JSONARGPARSE_DEPRECATION_WARNINGS", "off")
    lightning = logging.getLogger("pytorch_lightning.utilities.rank_zero")
    lightning.addFilter(_is_for_users)
    try:
        with warnings.catch_warnings():
            for message in WARNINGS:
                warnings.filterwarnings("ignore", message=message)
            yield
    finally:
        lightning.removeFilter(_is_for_users)


def _is_for_users(record: logging.LogRecord) -> bool:
    """Whether a line of Lightning's says something about this run."""
    return not any(words in record.getMessage() for words in LINES)
