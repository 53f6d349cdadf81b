"""The data set that somebody names: a folder of images with a table, a packaged name, or a config."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfgen.errors import UserError, unknown_name
from cfgen.io.files import read_yaml
from cfgen.training.configs import packaged_configs, packaged_data
from cfgen.training.options import constructor_options

if TYPE_CHECKING:
    from datamodules import AttributeDataModule

__all__ = ["built_data", "data_section"]

FOLDER = "datamodules.ImageTable"
PATHS = ("data_dir", "cache_dir")  # options that are made absolute: a config is used from any folder


def data_section(what: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Class path and options of the data set, as a config has them; `options` win over those of a config.

    A folder or a file of that name here comes before a packaged name.
    """
    path = Path(what)
    if path.is_dir() or path.suffix == ".zip":
        section: dict[str, Any] = {"class_path": FOLDER, "init_args": {"data_dir": what}}
    elif path.is_file():
        section = _of_config(path)
    elif found := packaged_data().get(what) or packaged_configs().get(what):
        section = _of_config(found)
    else:
        known = unknown_name("data set", what, packaged_data())
        raise UserError(f"there is no folder or config {what}, and {known}", argument="data")
    accepted = constructor_options(section["class_path"])
    for name in options:
        if accepted is not None and name not in accepted:
            raise UserError(f"{section['class_path']} has no such option. Valid: {', '.join(accepted)}", argument=name)
    arguments = dict(section.get("init_args") or {}) | dict(options)
    for name in PATHS:
        if isinstance(arguments.get(name), str):
            arguments[name] = str(Path(arguments[name]).expanduser().resolve())
    return {"class_path": section["class_path"], "init_args": arguments}


def _of_config(path: Path) -> dict[str, Any]:
    """The data's part of a config; a file may also be that part alone."""
    content: Any = read_yaml(path)
    section = content if "class_path" in content else content.get("data")
    if isinstance(section, str):  # another file, beside the config, or a packaged part
        beside = path.parent / section
        part = beside if beside.is_file() else packaged_data().get(section.removesuffix(".yaml"))
        if part is None:
            raise UserError(f"{path} names the data {section}, and there is no such file beside it", argument="data")
        section = read_yaml(part)
    if not isinstance(section, dict) or not isinstance(section.get("class_path"), str):
        raise UserError(f"{path} does not say the data's class_path", argument="data")
    if not isinstance(section.get("init_args") or {}, dict):
        raise UserError(f"{path}: the data's init_args are not names with values", argument="data")
    return section


def built_data(section: Mapping[str, Any], trusted: bool = False) -> AttributeDataModule:
    """The data set of a section; nothing is read yet.  With `trusted`, a class of the user's own is imported, which runs code."""
    import pytorch_lightning as pl

    from cfgen.io.classes import found_class, trusting
    from datamodules.base import AttributeDataModule

    with trusting(trusted):
        kind = found_class(section["class_path"], pl.LightningDataModule, "the data's config")
        try:
            data = kind(**section["init_args"])
        except (TypeError, ValueError) as error:  # how constructors refuse their arguments
            raise UserError(str(error)) from error
    if not isinstance(data, AttributeDataModule):
        raise UserError(f"{section['class_path']} has no attributes: it is not an AttributeDataModule", argument="data")
    return data
