"""Studies for a server: each study's page with its pictures, the answers, a line at a time, and what there is of both."""

from __future__ import annotations

import json
import os
import threading
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfgen.errors import UserError
from cfgen.io.files import exists, read_text
from cfgen.study.answers import require_fitting
from cfgen.study.design import ANSWERS, PAGE, STUDY, Study, canonical, valid_participant

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

__all__ = ["keep_line", "kept_lines", "listed_studies", "routes"]

TYPES = {
    "index.html": "text/html",
    "study.css": "text/css",
    "study.js": "text/javascript",
    "data.js": "text/javascript",
}
MOST_BYTES = 1000  # of an answer
MOST_PARTICIPANTS = 20_000  # of a study: a stranger cannot fill the disk
_writing = threading.Lock()


def routes(folder: str | Path = "studies") -> list[Route]:
    """Routes for all studies inside a folder, each under its name, to be mounted under any path."""
    from starlette.exceptions import HTTPException
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    root = Path(folder)

    def study_folder(request: Request) -> Path:
        """Of those that are there, the one that is named: a name is never made part of a path."""
        for place in _studies(root):
            if place.name == request.path_params["name"]:
                return place
        raise HTTPException(404)

    def page(request: Request) -> Response:
        place, name = study_folder(request), request.path_params.get("file", "index.html")
        if name not in TYPES:
            raise HTTPException(404)
        text = read_text(place / PAGE / name)
        if name == "data.js":
            text += "STUDY.server = true;\n"  # answers can be sent to where the page comes from
        return Response(text, media_type=TYPES[name])

    def picture(request: Request) -> Response:
        place, name = study_folder(request), request.path_params["file"]
        if name not in _study(place).checksums:
            raise HTTPException(404)
        return Response((place / PAGE / "images" / name).read_bytes(), media_type="image/png")

    def earlier(request: Request) -> Response:
        place, participant = study_folder(request), request.query_params.get("p", "")
        return JSONResponse(kept_lines(place, participant) if valid_participant(participant) else [])

    async def answer(request: Request) -> Response:
        place, data = study_folder(request), b""
        async for part in request.stream():
            data += part
            if len(data) > MOST_BYTES:
                return JSONResponse({"error": "an answer is shorter"}, 413)
        try:
            new = keep_line(place, _study(place), json.loads(data))
        except (UserError, ValueError, RecursionError) as error:
            return JSONResponse({"error": str(error)}, 400)
        return JSONResponse({"kept": True}) if new else JSONResponse({"error": "answered differently before"}, 409)

    return [
        Route("/{name}/", page),
        Route("/{name}/images/{file}", picture),
        Route("/{name}/answers", earlier),
        Route("/{name}/answers", answer, methods=["POST"]),
        Route("/{name}/{file}", page),
    ]


def keep_line(folder: Path, study: Study, line: Any) -> bool:
    """Adds an answer to its participant's file; the same again is no harm, and False where another one is there."""
    fitting = require_fitting(study, line)
    path = folder / ANSWERS / f"{fitting['participant']}.jsonl"
    with _writing:
        for known in kept_lines(folder, fitting["participant"]):
            if known["number"] == fitting["number"]:
                return known["answer"] == fitting["answer"]
        path.parent.mkdir(exist_ok=True)
        if not path.exists() and sum(1 for _ in path.parent.iterdir()) >= MOST_PARTICIPANTS:
            raise UserError("this study has all the participants that it can have")
        with path.open("ab+") as file:
            file.seek(0, os.SEEK_END)
            if size := file.tell():
                file.seek(size - 1)
                if file.read(1) != b"\n":  # a line that was cut off stays alone
                    file.write(b"\n")
            file.write(canonical(fitting).encode())
            file.flush()
            os.fsync(file.fileno())
    return True


def kept_lines(folder: Path, participant: str) -> list[dict[str, Any]]:
    """The answers of a participant that the server has."""
    path = folder / ANSWERS / f"{participant}.jsonl"
    if not exists(path):
        return []
    study, found = _study(folder), []
    for text in read_text(path).splitlines():
        try:
            found.append(require_fitting(study, json.loads(text)))
        except (UserError, ValueError, RecursionError):
            continue  # the analysis tells
    return found


def listed_studies(folder: str | Path = "studies") -> list[dict[str, Any]]:
    """What a list of studies says of each: its name and title, its questions, and how many people began and finished it."""
    return [_summary(place) for place in _studies(Path(folder))]


def _summary(folder: Path) -> dict[str, Any]:
    try:
        study = _study(folder)
        people = [Path(name).stem for name in (os.listdir(folder / ANSWERS) if exists(folder / ANSWERS) else [])]
        sat = [
            len({line["number"] for line in kept_lines(folder, person)}) == len(study.sheet_of(person))
            for person in people
            if valid_participant(person)
        ]
        told = {"title": study.title, "questions": len(study.sheets[0]), "begun": len(sat), "finished": sum(sat)}
    except UserError as error:
        told = {"problem": str(error)}
    return {"name": folder.name, "problem": "", **told}


def _studies(root: Path) -> list[Path]:
    return sorted(path.parent for path in root.glob(f"*/{STUDY}")) if root.is_dir() else []


def _study(folder: Path) -> Study:
    """Read once, and again when the file changes."""
    stat = (folder / STUDY).stat()
    return _read(folder, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=16)
def _read(folder: Path, changed: int, size: int) -> Study:
    return Study.read(folder)
