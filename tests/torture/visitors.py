"""Visitors of a real app on a port of its own: several at once, who do what its pages do, and whose answers are compared."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import httpx

from cfgen.app.uploads import MOST_UPLOADS
from tests.app import world
from tests.app.conftest import Live

__all__ = ["Visitors", "visited"]

AT_ONCE = 3
WAIT = 120.0  # seconds for an answer
STATES = {"size": 2.0, "gloss": 3.0, "colour": "red", world.WET: 0}
AUDIT = {"model": world.MODEL, "classifiers": [world.CLASSIFIER], "do": ["colour=green"], "count": 60, "judged": False}


class Visitors:
    """A server and those who visit it."""

    def __init__(self, folder: Path, server: Live) -> None:
        self.folder, self.server = folder, server
        with self.client(
            "filling"
        ) as client:  # as many pictures as are kept: from here on, one goes for each that comes
            for _ in range(MOST_UPLOADS):
                uploaded(client)

    def client(self, name: str) -> httpx.Client:
        headers = {"X-Client": name, "Connection": "close"}
        return httpx.Client(base_url=self.server.address, headers=headers, timeout=WAIT, trust_env=False)

    def round(self) -> str:
        """An audit and, while it runs, what all visitors ask; a digest of the answers, which have to be the same for each."""
        with self.client("auditor") as client, ThreadPoolExecutor(AT_ONCE) as pool:
            job = answered(client.post("/api/audits", json=AUDIT))["id"]
            digests = set(pool.map(self.visit, range(AT_ONCE)))
            found = audited(client, job)
        shutil.rmtree(self.folder / world.MODEL / "001" / "audits")  # reports are kept: the list would grow by rights
        assert len(digests) == 1, "visitors who ask the same are answered differently"
        return digest_of([digests.pop(), found])

    def visit(self, number: int) -> str:
        """A page's requests, in its order."""
        with self.client(f"visitor{number}") as client:
            pages = [client.get(path).raise_for_status().text for path in ("/", "/audit", "/data")]
            answers = [answered(client.get("/api/model", params={"model": world.MODEL}))]
            questions = product(range(4), ({"size": 4.0}, {"colour": "green"}, {"size": 1.5, world.WET: 1}))
            answers += [asked(client, image=image, do=do, classifier=world.CLASSIFIER) for image, do in questions]
            answers.append(answered(client.post("/api/strip", content=world.asked(attribute="size"))))
            answers.append(asked(client, image=uploaded(client), given=STATES, do={"size": 4.0}))
            answers.append(answered(client.get("/api/data", params={"model": world.MODEL})))
        return digest_of([pages, answers])


def asked(client: httpx.Client, **question: Any) -> dict[str, Any]:
    return answered(client.post("/api/answer", content=world.asked(**question)))


def uploaded(client: httpx.Client) -> str:
    """The id of a picture that was sent."""
    sent = client.post("/api/upload", content=world.png(), params={"model": world.MODEL, "name": "sign.png"})
    return str(answered(sent)["upload"])


def audited(client: httpx.Client, job: str) -> Mapping[str, Any]:
    """What an audit found, once it is done, and that its report opens."""
    end = time.monotonic() + WAIT
    while True:
        listed = answered(client.get("/api/audits"))
        one = next(one for one in listed["jobs"] if one["id"] == job)
        if one["state"] not in ("waiting", "running"):
            break
        assert time.monotonic() < end, "an audit does not end"
        time.sleep(0.02)
    assert one["state"] == "done", one["message"]
    assert "colour=green" in client.get("/audit/report", params={"id": one["report"]}).raise_for_status().text
    folder = Path(world.MODEL) / "001" / "audits" / one["report"].rpartition("#")[2]
    found = json.loads((folder / "audit.json").read_text())["classifiers_audited"]
    return {"audited": found}


def answered(response: httpx.Response) -> Any:
    return response.raise_for_status().json()


def digest_of(answers: Any) -> str:
    return hashlib.sha256(json.dumps(answers).encode()).hexdigest()


@contextmanager
def visited(folder: Path) -> Iterator[Visitors]:
    """The app of a small world in a new folder, which is the working directory meanwhile: there the app looks for runs."""
    folder.mkdir()
    before = os.getcwd()
    os.chdir(world.built(folder))
    server = Live(world.studio())
    try:
        yield Visitors(folder, server)
    finally:
        server.stop()
        os.chdir(before)
