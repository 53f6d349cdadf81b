"""The addresses of the page "Audit"."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cfgen.app.audits import Earlier, counted, earlier_audits
from cfgen.app.comparison import compared, title_of
from cfgen.app.pages import page, report_page
from cfgen.app.requests import asked_json, client_of, result_of
from cfgen.app.studio import Studio
from cfgen.errors import UserError
from cfgen.io.files import read_text
from cfgen.runs.model import TrainedModel

__all__ = ["ROUTES"]

SHOWN = 50  # earlier audits in the list


async def audit_page(request: Request) -> Response:
    studio: Studio = request.app.state.studio
    return page("audit.html", active="audit", models=studio.catalogue.models())


async def choices(request: Request) -> Response:
    """The classifiers of a model and its attributes, with how many test images have each value."""
    studio: Studio = request.app.state.studio
    name = request.query_params.get("model", "")

    def found() -> dict[str, Any]:
        model, columns = studio.columns(name)
        attributes: list[dict[str, Any]] = []
        for attribute, spec in model.schema.spec.items():
            column = columns["test"][attribute]
            if spec["kind"] == "continuous":
                attributes.append({"name": attribute, **spec})
                continue
            values = spec.get("values", [0, 1])
            counts = [int((column == place).sum()) for place in range(len(values))]
            attributes.append({"name": attribute, **spec, "values": values, "counts": counts})
        images = len(next(iter(columns["test"].values())))
        classifiers = [_classifier(studio, one, model) for one in studio.catalogue.classifiers_for(name)]
        return {"attributes": attributes, "images": images, "classifiers": classifiers}

    return JSONResponse(await result_of(request, studio.reading, "choices", found))


def _classifier(studio: Studio, name: str, model: TrainedModel) -> dict[str, Any]:
    """The classes of a classifier that has more than two, or why it cannot be audited."""
    try:
        return {"name": name, "classes": list(studio.catalogue.load_classifier(name, model).classes), "problem": ""}
    except UserError as error:
        return {"name": name, "classes": [], "problem": str(error)}


async def count(request: Request) -> Response:
    """Of how many test images interventions are asked."""
    studio: Studio = request.app.state.studio
    asked = await asked_json(request)
    name, do = asked.get("model"), asked.get("do")
    if not isinstance(name, str) or not isinstance(do, list) or not all(isinstance(one, str) for one in do):
        raise UserError("expected a model and a list of interventions", argument="do")
    found = await result_of(request, studio.reading, "count", lambda: counted(*studio.columns(name), do))
    return JSONResponse({"interventions": found})


async def start(request: Request) -> Response:
    studio: Studio = request.app.state.studio
    job = studio.audits.start(client_of(request), await asked_json(request))
    return JSONResponse(job.to_dict(), 201)


async def listed(request: Request) -> Response:
    """The audits of this session, and those that have a report."""
    studio: Studio = request.app.state.studio
    jobs = [{**job.to_dict(), "position": studio.audits.position(job)} for job in studio.audits.jobs.values()]
    return JSONResponse(
        {"jobs": jobs[::-1], "earlier": [told for one in _earlier(studio)[:SHOWN] if (told := _told(one))]}
    )


def _earlier(studio: Studio) -> list[Earlier]:
    return list(earlier_audits(studio.catalogue.models()).values())


def _told(audit: Earlier) -> dict[str, Any] | None:
    try:
        return title_of(audit)
    except UserError:  # damaged, or deleted just now
        return None


async def cancel(request: Request) -> Response:
    studio: Studio = request.app.state.studio
    return JSONResponse(studio.audits.cancel(str((await asked_json(request)).get("id"))).to_dict())


def _known(request: Request, parameter: str) -> Earlier:
    studio: Studio = request.app.state.studio
    known = earlier_audits(studio.catalogue.models())
    id = request.query_params.get(parameter, "")
    if id not in known:
        raise UserError("there is no such audit; the page Audit lists those that there are", argument="audit")
    return known[id]


async def report(request: Request) -> Response:
    """The report as `cfgen audit` wrote it."""
    return report_page(read_text(_known(request, "id").folder / "report.html"))


async def compare(request: Request) -> Response:
    found = compared(_known(request, "one"), _known(request, "other"))
    return page("compare.html", active="audit", **found)


ROUTES = [
    Route("/audit", audit_page),
    Route("/audit/report", report),
    Route("/audit/compare", compare),
    Route("/api/audits", listed),
    Route("/api/audits", start, methods=["POST"]),
    Route("/api/audits/choices", choices),
    Route("/api/audits/count", count, methods=["POST"]),
    Route("/api/audits/cancel", cancel, methods=["POST"]),
]
