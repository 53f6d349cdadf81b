"""A port to listen on, and the server on it until it is interrupted."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import webbrowser
from collections.abc import Callable
from typing import Any

import uvicorn

from cfgen.errors import UserError

__all__ = ["bound", "open_browser", "serve"]

LAST_ANSWERS = 3  # seconds that requests have to be answered when the server is stopped


def bound(host: str, port: int | None, usual: int) -> socket.socket:
    """A socket that listens on a port: the one that is wanted; without a wish the usual one, or else any that is free."""
    for candidate in (usual, 0) if port is None else (port,):
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, int(candidate), type=socket.SOCK_STREAM)[0]
            listening = socket.socket(family, kind, protocol)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            return listening
        except socket.gaierror as error:
            raise UserError(f"there is no address {host!r} here ({error.strerror})", argument="host") from error
        except (OSError, OverflowError) as error:
            reason = error
    at_fault = "port" if port is not None else "host"
    raise UserError(f"cannot listen on {host}, port {port}: {getattr(reason, 'strerror', None) or reason}", at_fault)


def open_browser(link: str) -> None:
    """Opens the user's browser, where there is a screen; a browser for terminals would take this one."""
    if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(link)


class Server(uvicorn.Server):
    """A server that says when it answers."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell()


def serve(app: Any, listening: socket.socket, started: Callable[[], None]) -> None:
    """Answers requests until the process is interrupted; `started` is called once the first can be answered."""
    # no access log: its lines would hold the token
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=LAST_ANSWERS,
        server_header=False,
    )
    with contextlib.suppress(KeyboardInterrupt):
        Server(config, started).run([listening])
