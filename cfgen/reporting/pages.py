"""Pages: one set of Jinja2 templates, everything in them escaped, each page a single file that opens offline.

A page shows what it is given: every number is computed before.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

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
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unbroken"] = unbroken
    return environment


def page(template: str, **shown: Any) -> str:
    """The page of a template (`audit.html`, `comparison.html`) with what it shows."""
    return _environment().get_template(template).render(**shown)


def unbroken(text: str) -> str:
    """With per cent signs and intervals that stay on one line; what is markup already stays as it is.

    >>> unbroken("95 % of -4.0 to +2.0")
    '95\\xa0% of -4.0\\xa0to\\xa0+2.0'
    """
    if isinstance(text, Markup):
        return text
    text = text.replace(" %", "\N{NO-BREAK SPACE}%")
    return re.sub(r"(?<=[\d%]) to (?=[-+\d])", "\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}", text)
