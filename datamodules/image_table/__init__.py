"""A folder of pictures with a table: any data set in the `imagefolder` convention of Hugging Face `datasets`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cfgen.lazy import lazy_names

if TYPE_CHECKING:
    from datamodules.image_table.data import ImageTable
    from datamodules.image_table.export import write_image_folder
    from datamodules.image_table.findings import Finding, TableError

__all__ = ["Finding", "ImageTable", "TableError", "write_image_folder"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {"Finding": "findings", "ImageTable": "data", "TableError": "findings", "write_image_folder": "export"},
)
