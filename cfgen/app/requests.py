"""What is read from a request: who asks, what is asked, and the answer of a worker to it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

from starlette.requests import Request

from cfgen.app.guard import CLIENT
from cfgen.app.queueing import FairWorker
from cfgen.errors import UserError

__all__ = ["asked_json", "client_of", "result_of"]

MOST_BYTES = 100_000  # of a question


def client_of(request: Request) -> str:
    """The tab that asks, by the name it gave itself, on the machine that it runs on."""
    name = request.headers.get(CLIENT, "")
    host = request.client.host if request.client is not None else ""
    return f"{host}/{name}" if re.fullmatch(r"[\w-]{1,64}", name) else host


async def asked_json(request: Request) -> dict[str, Any]:
    """The object that a page sent, if it is one and not too large."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MOST_BYTES:
            raise UserError(f"the question has more than {MOST_BYTES:,} bytes: it is not what is expected here")
        parts.append(part)
    try:
        asked = json.loads(b"".join(parts))
    except (ValueError, RecursionError) as error:
        raise UserError("the question cannot be read as JSON") from error
    if not isinstance(asked, dict):
        raise UserError("expected names with values")
    return asked


async def result_of(request: Request, worker: FairWorker, kind: str, work: Callable[[], Any]) -> Any:
    """What a worker makes of a request, in the client's turn."""
    return await asyncio.wrap_future(worker.submit(client_of(request), kind, work))
