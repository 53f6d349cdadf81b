"""The server: which address is answered by what.  Everything it does, a function of the library does."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Collection
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from cfgen.app import audit_routes
from cfgen.app.drawing import picture_uri
from cfgen.app.guard import CLIENT, Guard
from cfgen.app.pages import STATIC, page, report_page
from cfgen.app.queueing import Busy, FairWorker, Superseded
from cfgen.app.requests import asked_json, client_of, result_of
from cfgen.app.studio import Question, Studio
from cfgen.app.uploads import TooLarge, proposed_attributes
from cfgen.errors import UserError
from cfgen.runs.sources import framed_pictures
from cfgen.study.web import listed_studies
from cfgen.study.web import routes as study_routes

__all__ = ["create_app"]


def create_app(studio: Studio, host: str = "127.0.0.1", names: Collection[str] = (), token: str | None = None) -> Guard:
    """The app as a server runs it; `names` are further names of this machine, `token` is what a visitor has to know."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        studio.close()

    routes: list[BaseRoute] = [
        Route("/", whatif_page),
        Route("/data", data_page),
        Route("/data/report", data_report),
        Route("/favicon.ico", icon),  # reports of audits do not name one
        Route("/api/model", model_description),
        Route("/api/answer", answer, methods=["POST"]),
        Route("/api/strip", strip, methods=["POST"]),
        Route("/api/upload", upload, methods=["POST"]),
        Route("/api/data", data_summary),
        Route("/api/queue", queue_position),
        *audit_routes.ROUTES,
        Route("/study/", study_page),
        Mount("/study", routes=study_routes()),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    handlers: dict[Any, Any] = {
        UserError: refused,
        Superseded: superseded,
        HTTPException: not_found,
        ClientDisconnect: gone,
        Exception: failed,
    }
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.state.studio = studio
    return Guard(app, host, names, token)


async def whatif_page(request: Request) -> Response:
    return _model_page(request, "whatif.html", "whatif")


async def data_page(request: Request) -> Response:
    return _model_page(request, "data.html", "data")


async def study_page(request: Request) -> Response:
    return page("study.html", active="study", studies=await run_in_threadpool(listed_studies))


def _model_page(request: Request, template: str, active: str) -> Response:
    studio: Studio = request.app.state.studio
    return page(template, active=active, models=studio.catalogue.models())


async def icon(request: Request) -> Response:
    return FileResponse(STATIC / "icon.svg")


async def model_description(request: Request) -> Response:
    """Controls, graph, examples and classifiers of a model."""
    studio: Studio = request.app.state.studio
    name = request.query_params.get("model", "")
    return JSONResponse(await result_of(request, studio.sliders, "open", lambda: studio.description(name)))


async def answer(request: Request) -> Response:
    """What if?  The newest question of a client counts."""
    studio: Studio = request.app.state.studio
    question = Question.of(await asked_json(request))
    return JSONResponse(await result_of(request, studio.sliders, "answer", lambda: studio.answer(question)))


async def strip(request: Request) -> Response:
    """The frames of a strip over one attribute."""
    studio: Studio = request.app.state.studio
    asked = await asked_json(request)
    question, attribute = Question.of(asked), str(asked.get("attribute", ""))
    frames = await result_of(request, studio.sliders, "strip", lambda: studio.strip(question, attribute))
    return JSONResponse({"attribute": attribute, "frames": frames})


async def upload(request: Request) -> Response:
    """Takes a picture, and says what can be told of it."""
    studio: Studio = request.app.state.studio
    model, name = request.query_params.get("model", ""), request.query_params.get("name", "picture")
    stated = request.headers.get("content-length", "")
    taken = await studio.uploads.take(name, int(stated) if stated.isdigit() else None, request.stream())

    def looked_at() -> dict[str, Any]:
        loaded = studio.catalogue.load(model)
        with taken.named_in_errors():
            x, _ = framed_pictures(loaded, [taken.path])
        proposed = proposed_attributes(loaded, taken)
        return {"upload": taken.id, "name": taken.name, "picture": picture_uri(x[0]), "proposed": proposed}

    try:
        return JSONResponse(await result_of(request, studio.sliders, "upload", looked_at))
    except BaseException:
        studio.uploads.drop(taken.id)
        raise


async def data_summary(request: Request) -> Response:
    """What is in the data of a model, in short."""
    return JSONResponse((await _data_report(request))["found"])


async def data_report(request: Request) -> Response:
    """The same as `cfgen data --out` writes it."""
    return report_page((await _data_report(request))["html"])


async def _data_report(request: Request) -> dict[str, Any]:
    studio: Studio = request.app.state.studio
    name = request.query_params.get("model", "")
    return await result_of(request, studio.reading, "data", lambda: studio.data_report(name))


async def queue_position(request: Request) -> Response:
    """How many requests come before the client's next one."""
    studio: Studio = request.app.state.studio
    client = client_of(request)
    workers: tuple[FairWorker, ...] = (studio.sliders, studio.reading)
    places = [place for worker in workers if (place := worker.position(client)) is not None]
    return JSONResponse({"position": max(places, default=None)})


async def refused(request: Request, error: Exception) -> Response:
    """Bad input: one line, and the field that it is about."""
    assert isinstance(error, UserError)
    status = 503 if isinstance(error, Busy) else 413 if isinstance(error, TooLarge) else 400
    if CLIENT in request.headers:
        return JSONResponse({"error": str(error), "argument": error.argument}, status)
    return page("message.html", active="", status=status, title="That did not work", text=str(error))


async def superseded(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "a newer request took its place", "superseded": True}, 409)


async def not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = "There is no such page." if error.status_code == 404 else error.detail
    if CLIENT in request.headers:
        return JSONResponse({"error": text, "argument": None}, error.status_code)
    return page("message.html", active="", status=error.status_code, title=text, text="The pages are named above.")


async def gone(request: Request, error: Exception) -> Response:
    """Nobody waits for this answer."""
    return Response(status_code=400)


async def failed(request: Request, error: Exception) -> Response:
    """Whatever else: the server goes on, and its terminal has the details."""
    text = f"something went wrong inside ({type(error).__name__}); the terminal of cfgen app has the details"
    return JSONResponse({"error": text, "argument": None}, 500)
