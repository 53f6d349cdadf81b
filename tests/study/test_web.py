"""What a server answers: pages, pictures and answers of studies; and nothing else."""

import json

import pytest

pytest.importorskip("starlette", reason="needs cfgen[app]")
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from cfgen.study.analysis import analyse
from cfgen.study.web import listed_studies, routes
from tests.study.test_analysis import sat

PERSON = "0123456789abcdef"


@pytest.fixture
def client(folder):
    app = Starlette(routes=[Mount("/study", routes=routes(folder.parent))])
    return TestClient(app, raise_server_exceptions=False)


def test_a_sitting_is_kept_line_by_line(client, folder, made):
    lines = sat(made.study, PERSON, 4)
    for number, line in enumerate(lines):
        assert client.post("/study/stripes/answers", json=line).status_code == 200
        kept = (folder / "answers" / f"{PERSON}.jsonl").read_text().splitlines()
        assert [json.loads(text) for text in kept] == lines[: number + 1]
    assert client.post("/study/stripes/answers", json=lines[3]).status_code == 200  # sent again: no harm
    other = lines[3] | {"answer": {"left": "right", "right": "left"}[lines[3]["answer"]]}
    assert client.post("/study/stripes/answers", json=other).status_code == 409
    assert client.get("/study/stripes/answers", params={"p": PERSON}).json() == lines
    assert analyse(folder).results[0].scores == [4]


def test_a_line_that_was_cut_off_does_not_spoil_the_next(client, folder, made):
    lines = sat(made.study, PERSON, 4)
    (folder / "answers" / f"{PERSON}.jsonl").write_text('{"study":')
    for line in lines:
        assert client.post("/study/stripes/answers", json=line).status_code == 200
    found = analyse(folder)
    assert found.results[0].scores == [4]
    assert len(found.unreadable) == 1


def test_what_does_not_fit_is_not_kept(client, folder, made):
    good = sat(made.study, PERSON, 4)[0]
    wrong = [
        good | {"participant": "../../../../x"},
        good | {"participant": PERSON + "0"},
        good | {"number": 99},
        good | {"number": True},
        good | {"trial": "t999"},
        good | {"answer": "both"},
        good | {"ms": -1},
        good | {"study": "another"},
        good | {"name": "Ann"},
        [good],
        None,
    ]
    for line in wrong:
        assert client.post("/study/stripes/answers", json=line).status_code == 400
    assert client.post("/study/stripes/answers", content=b"{").status_code == 400
    assert client.post("/study/stripes/answers", content=b" " * 2000).status_code == 413
    assert client.get("/study/stripes/answers", params={"p": "../study"}).json() == []
    assert not list((folder / "answers").iterdir())


def test_pages_and_nothing_else(client, folder, made):
    assert client.get("/study/").status_code == 404  # the list is the app's
    page = client.get("/study/stripes/")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.text
    assert client.get("/study/stripes/data.js").text.endswith("STUDY.server = true;\n")
    name = made.study.trials[0].images[0]
    assert client.get(f"/study/stripes/images/{name}").content == made.pictures[name]
    for path in ("study.json", "consent.txt", "..%2fstudy.json", "images/..%2f..%2fstudy.json", "images/x.png"):
        assert client.get(f"/study/stripes/{path}").status_code == 404
    assert client.get("/study/other/").status_code == 404
    assert client.get("/study/%2e%2e/").status_code == 404


def test_the_list_says_how_many_people_answered(client, folder, made):
    lines = sat(made.study, PERSON, 4)
    one = {"name": "stripes", "problem": "", "title": made.study.title, "questions": len(made.study.sheets[0])}
    assert listed_studies(folder.parent) == [one | {"begun": 0, "finished": 0}]
    for number, line in enumerate(lines):
        client.post("/study/stripes/answers", json=line)
        assert listed_studies(folder.parent) == [one | {"begun": 1, "finished": int(number == len(lines) - 1)}]
    (folder / "study.json").write_text("{}")  # one that was changed is named, with what is wrong
    (changed,) = listed_studies(folder.parent)
    assert changed["name"] == "stripes"
    assert changed["problem"]
    assert listed_studies(folder / "nowhere") == []
