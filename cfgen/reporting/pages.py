"""Pages: one set of Jinja2 templates, everything in them escaped, each page a single file that opens offline.

A page shows what it is given: every number is computed before.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from cfgen.reporting.files import DPI

__all__ = ["PagePicture", "page", "page_picture"]

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class PagePicture:
    """A picture as part of a page, described for those who cannot see it."""

    source: str
    width: int
    description: str


def page_picture(png: bytes, description: str) -> PagePicture:
    """The bytes of a PNG as part of a page, as wide as its letters are meant to be."""
    width = round(int.from_bytes(png[16:20], "big") * 96 / DPI)  # the width that a PNG states
    return PagePicture(f"data:image/png;base64,{base64.b64encode(png).decode()}", width, description)


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def page(template: str, **shown: Any) -> str:
    """The page of a template (`audit.html`, `comparison.html`) with what it shows."""
    return _environment().get_template(template).render(**shown)
