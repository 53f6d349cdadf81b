"""Who is answered, and what an answer lets a browser do."""

import pytest
from starlette.testclient import TestClient

from cfgen import load
from cfgen.app.server import create_app
from cfgen.study import new_study
from tests.app import world
from tests.study.test_analysis import sat

PAGES = ["/", "/audit", "/data", "/nowhere", "/static/app.css", "/static/../server.py", "/audit/report?id=x"]


@pytest.mark.parametrize("path", PAGES)
def test_every_answer_forbids_other_hosts(client, path):
    policy = client.get(path).headers["content-security-policy"]
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == "'self'"
    assert parts["script-src"] == parts["style-src"] == "'self'"
    assert parts["img-src"] == "'self' data:"
    assert client.get(path).headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[", "192.168.0.7"])
def test_a_name_that_is_not_this_machines_is_refused(client, host):
    """DNS rebinding: a stranger's name may point here."""
    assert client.get("/", headers={"Host": host}).status_code == 421
    assert client.get("/", headers={"Host": "localhost:8642"}).status_code == 200


def test_pages_of_other_sites_cannot_ask(client):
    assert client.post("/api/answer", content=world.asked()).status_code == 200
    foreign = {"Origin": "http://evil.example"}
    assert client.post("/api/answer", content=world.asked(), headers=foreign).status_code == 403
    own = {"Origin": "http://testserver"}
    assert client.post("/api/answer", content=world.asked(), headers=own).status_code == 200
    del client.headers["X-Client"]  # a form of another site cannot send it
    assert client.post("/api/answer", content=world.asked()).status_code == 403


def test_other_machines_need_the_token(studio):
    app = create_app(studio, "0.0.0.0", token="secret")
    with TestClient(app, base_url="http://192.168.0.7:8642", follow_redirects=False) as client:
        for path in ("/", "/api/model", "/static/app.css", "/?token=wrong", "/?token="):
            assert client.get(path).status_code == 401
        assert client.get("/", headers={"Cookie": "cfgen_app=wrong"}).status_code == 401
        entered = client.get("/audit?token=secret&model=x")
        assert (entered.status_code, entered.headers["location"]) == (303, "/audit?model=x")
        cookie = entered.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert client.get("/").status_code == 200  # by the cookie
        assert client.get("/", headers={"Host": "evil.example"}).status_code == 421


def test_a_study_is_sat_behind_the_same_guard(here):
    """Its list is linked on every page; what a page of the app sends is kept, what another site sends is not."""
    made = new_study(load("morphomnist-hvae"), [{"thickness": 5}, {"label": 7}], each=4)
    made.save(here / "studies" / "digits")
    line = sat(made.study, "0123456789abcdef", 4)[0]
    with TestClient(create_app(world.studio(), "testserver")) as client:
        assert 'href="/study/"' in client.get("/").text
        assert "digits" in client.get("/study/").text
        assert client.get("/study/digits/").status_code == 200
        assert client.get("/study/digits/", headers={"Host": "evil.example"}).status_code == 421
        assert client.post("/study/digits/answers", json=line).status_code == 403
        assert client.post("/study/digits/answers", json=line, headers={"X-Client": "tab"}).status_code == 200
