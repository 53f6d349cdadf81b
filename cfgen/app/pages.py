"""Pages from templates: everything in them is escaped, and each says which others there are."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

if TYPE_CHECKING:
    from starlette.responses import HTMLResponse

__all__ = ["STATIC", "environment", "page", "report_page"]

TEMPLATES, STATIC = (Path(__file__).parent / name for name in ("templates", "static"))


@cache
def environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def page(template: str, *, status: int = 200, **shown: Any) -> HTMLResponse:
    """The page of a template with what it shows."""
    from starlette.responses import HTMLResponse  # here: a page is exported also where no server is installed

    text = environment().get_template(template).render(**shown)
    return HTMLResponse(text, status)


def report_page(text: str) -> HTMLResponse:
    """A report that is one file: it may use the style that is in it and its pictures, and nothing else."""
    from starlette.responses import HTMLResponse

    from cfgen.app.guard import content_policy

    styles = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() for style in styles]
    policy = content_policy(" ".join(f"'sha256-{one}'" for one in hashes) or "'none'", "'none'")
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})
