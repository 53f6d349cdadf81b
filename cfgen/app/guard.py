"""Who may ask the server, and what its answers allow a browser to do."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["CLIENT", "Guard", "content_policy"]

COOKIE = "cfgen_app"
CLIENT = "x-client"  # the header by which a page says which tab is asking; no other site's page can send it
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def content_policy(style: str = "'self'", script: str = "'self'") -> str:
    """What a page may load: files of this server and pictures inside the page, and nothing of another host."""
    return (
        f"default-src 'self'; script-src {script}; style-src {style}; img-src 'self' data:; object-src 'none'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
    )


HEADERS = {
    "Content-Security-Policy": content_policy(),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Answers only those who address this machine by its own name, come from its own pages, and know the token if there is one.

    A page of another site can make a browser send requests here, also under a name that it lets point to this machine (DNS
    rebinding).  It can neither choose the Host header, nor send a header of its own, nor read the token's cookie.
    """

    def __init__(self, app: ASGIApp, host: str, names: Collection[str] = (), token: str | None = None) -> None:
        self.app, self.token = app, token
        self.names = {name.lower() for name in (*LOOPBACK, host, *names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self.refusal(scope)
        await (self.app if refusal is None else refusal)(scope, receive, send_guarded)

    def refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self.is_own(host):
            return PlainTextResponse(
                "This address is not one of the app's: open the one that `cfgen app` printed.", 421
            )
        origin = headers.get("origin")
        foreign = origin is not None and urlsplit(origin).netloc.lower() != host.lower()
        if scope["method"] not in ("GET", "HEAD") and (foreign or CLIENT not in headers):
            return PlainTextResponse("Only the app's own pages may ask for that.", 403)
        return None if self.token is None else self.refused_without_token(scope, headers)

    def is_own(self, host: str) -> bool:
        """Whether a Host header names this machine; where there is a token, any number of an address does."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self.names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return self.token is not None

    def refused_without_token(self, scope: Scope, headers: Headers) -> Response | None:
        assert self.token is not None
        try:
            kept = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            kept = None
        if kept is not None and secrets.compare_digest(kept.value.encode(), self.token.encode()):
            return None
        query = parse_qsl(scope.get("query_string", b"").decode("latin-1"))
        given = dict(query).get("token", "")
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return PlainTextResponse(
                "Open the link that `cfgen app` printed: it has the token that is needed here.", 401
            )
        # back to the page without the token, so that it does not stay in the address bar
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        answer = RedirectResponse(f"{scope['path']}?{rest}" if rest else scope["path"], 303)
        answer.set_cookie(COOKIE, self.token, httponly=True, samesite="strict", path="/")
        return answer
