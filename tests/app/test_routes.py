"""Every address of the app, and every bad input: a clear line each, and the server goes on."""

import http.client
import json
import re
import shutil

import pytest
import torch
from PIL import Image

from cfgen.app.uploads import MOST_BYTES
from tests.app import world
from tests.app.conftest import waited_for
from tests.app.world import CLASSIFIER, MODEL, WET, asked

STATES = {"size": 2.0, "gloss": 3.0, "colour": "red", WET: 0}


def goes_on(client):
    """The server still answers."""
    answer = client.post("/api/answer", content=asked(do={"size": 2.0}))
    assert answer.status_code == 200
    assert answer.json()["counterfactual_attributes"]["size"] == 2.0


def refusal(answer, status=400):
    """The line of a refusal, which is one and tells no traceback and no place of this machine."""
    assert answer.status_code == status, answer.text
    text = answer.json()["error"]
    assert text
    assert "\n" not in text
    assert "Traceback" not in text
    assert "cfgen-app-" not in text
    return text


@pytest.mark.parametrize("path", ["/", "/audit", "/data"])
def test_pages_name_the_models_and_carry_no_inline_code(client, path):
    text = client.get(path).text
    assert f'<option value="{MODEL}">' in text
    assert '<option value="morphomnist-hvae">' in text
    assert "runs/sign_classifier" not in text  # a classifier is no model
    assert 'aria-current="page"' in text
    assert not re.search(r"<style|<script(?! src=\"/static/)|\sstyle=|\son\w+=|https?://", text)
    for label in re.findall(r'<label for="([^"]+)"', text):
        assert f'id="{label}"' in text


def test_the_study_page_lists_studies_and_says_how_to_make_one(client, here):
    text = client.get("/study/").text
    assert "cfgen study new" in text
    assert 'aria-current="page"' in text
    (here / "studies/broken").mkdir(parents=True)
    (here / "studies/broken/study.json").write_text("{}")
    assert "cannot be opened" in client.get("/study/").text
    shutil.rmtree(here / "studies")


def test_a_model_is_described(client):
    found = client.get("/api/model", params={"model": MODEL}).json()
    assert [control["name"] for control in found["controls"]] == ["size", "gloss", "colour", WET]
    assert found["graph"] == {"levels": [["size", "colour", WET], ["gloss"]], "edges": [["size", "gloss"]]}
    assert found["classifiers"] == [CLASSIFIER, "runs/sign_classifier"]
    assert len(found["examples"]) == 24
    assert set(found["examples"][0]["attributes"]) == set(STATES)


@pytest.mark.parametrize(
    ("question", "argument"),
    [
        ({"model": "nowhere"}, "model"),
        ({"model": "../../etc"}, "model"),
        ({"model": "runs/signs/../signs"}, "model"),
        ({"model": None}, "model"),
        ({"image": 100_000}, "image"),
        ({"image": -1}, "image"),
        ({"image": "../../etc/passwd"}, "image"),
        ({"image": True}, "image"),
        ({"do": {"siez": 2}}, "do"),
        ({"do": {"size": 99}}, "do"),
        ({"do": {"size": "large"}}, "do"),
        ({"do": {"size": [1, 2]}}, "do"),
        ({"do": {"size": float("nan")}}, "do"),
        ({"do": {"colour": "<script>alert(1)</script>"}}, "do"),
        ({"do": [1]}, "do"),
        ({"classifier": "os:system"}, "classifier"),
        ({"classifier": "/etc/passwd"}, "classifier"),
        ({"classifier": 3}, "classifier"),
    ],
)
def test_bad_questions_are_refused_by_the_field(client, question, argument):
    answer = client.post("/api/answer", content=asked(**question))
    refusal(answer)
    assert answer.json()["argument"] == argument
    goes_on(client)


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 90_000, b'{"a": "' + b"x" * 200_000 + b'"}'])
def test_what_is_no_question_is_refused(client, body):
    for path in ("/api/answer", "/api/strip", "/api/audits", "/api/audits/count", "/api/audits/cancel"):
        refusal(client.post(path, content=body))
    goes_on(client)


def test_a_strip_of_an_unknown_attribute_is_refused(client):
    refusal(client.post("/api/strip", content=asked(attribute="siez")))
    assert len(client.post("/api/strip", content=asked(attribute="size")).json()["frames"]) == 9


def test_addresses_that_are_none(client):
    refusal(client.get("/nowhere"), 404)
    del client.headers["X-Client"]
    assert "There is no such page" in client.get("/nowhere").text
    assert client.get("/static/%2e%2e/server.py").status_code == 404
    assert client.get("/audit/report", params={"id": f"{MODEL}#../001"}).status_code == 400


def test_html_in_names_stays_text(client):
    """The page gets names as JSON and sets them as text; a message says them as they are."""
    assert "<b>wet" not in client.get("/").text
    assert client.get("/api/model", params={"model": MODEL}).headers["content-type"] == "application/json"
    text = refusal(client.post("/api/answer", content=asked(do={WET: 7})))
    assert WET in text
    del client.headers["X-Client"]
    shown = client.get("/audit/compare", params={"one": "<script>alert(1)</script>", "other": ""}).text
    assert "<script>alert" not in shown


def sent(client, data, name="sign.png", model=MODEL):
    return client.post("/api/upload", content=data, params={"model": model, "name": name})


def test_an_upload_is_asked_about_and_answered(client, studio):
    found = sent(client, world.png(300, 200), "my <i>sign.png").json()
    assert found["name"] == "my <i>sign.png"
    assert found["proposed"] == {}  # nothing measures or reads signs
    picture = world.pixels_of(found["picture"])
    assert picture.shape == (28, 28)
    missing = client.post("/api/answer", content=asked(image=found["upload"], do={"size": 4.0}))
    assert "gloss" in refusal(missing)
    answer = client.post("/api/answer", content=asked(image=found["upload"], given=STATES, do={"size": 4.0})).json()
    assert torch.equal(world.pixels_of(answer["original"]), picture)
    assert answer["attributes"]["size"] == 2.0
    assert len(list(studio.uploads.folder.iterdir())) == 1


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "cannot be read as an image"),
        (b"not a picture", "cannot be read as an image"),
        (world.zip_file(), "cannot be read as an image"),
        (world.truncated_jpeg(), "cannot be read as an image"),
    ],
)
def test_what_is_no_picture_is_refused_and_not_kept(client, studio, data, words):
    assert words in refusal(sent(client, data, "broken.png"))
    assert "broken.png" in sent(client, data, "broken.png").json()["error"]
    assert list(studio.uploads.folder.iterdir()) == []
    goes_on(client)


def test_a_small_file_of_a_very_large_picture_is_refused(client, studio, tmp_path):
    Image.new("1", (20_000, 20_000)).save(tmp_path / "large.png")
    text = refusal(sent(client, (tmp_path / "large.png").read_bytes()))
    assert "pixels" in text
    assert list(studio.uploads.folder.iterdir()) == []
    goes_on(client)


def test_uploads_of_unknown_models_and_with_paths_for_names(client, studio):
    refusal(sent(client, world.png(), model="nowhere"))
    assert sent(client, world.png(), "../../../etc/x.png").json()["name"] == "x.png"
    assert all(path.parent == studio.uploads.folder for path in studio.uploads.folder.iterdir())


def test_only_the_newest_uploads_are_kept(client, studio, monkeypatch):
    from cfgen.app import uploads

    monkeypatch.setattr(uploads, "MOST_UPLOADS", 2)
    ids = [sent(client, world.png()).json()["upload"] for _ in range(3)]
    assert {path.name for path in studio.uploads.folder.iterdir()} == set(ids[1:])
    refusal(client.post("/api/answer", content=asked(image=ids[0], given=STATES)))


def test_uploads_are_gone_when_the_app_ends(here):
    from starlette.testclient import TestClient

    from cfgen.app.server import create_app

    studio = world.studio()
    with TestClient(create_app(studio, "testserver"), headers=world.HEADERS) as client:
        sent(client, world.png())
        folder = studio.uploads.folder
        assert list(folder.iterdir())
    assert not folder.exists()


def test_a_deleted_model_is_said_so_and_others_go_on(client, here):
    shutil.copytree(here / "runs/signs", here / "runs/short_lived")
    question = asked(model="runs/short_lived", do={"size": 2.0})
    assert client.post("/api/answer", content=question).status_code == 200
    shutil.rmtree(here / "runs/short_lived")
    assert "short_lived" in refusal(client.post("/api/answer", content=question))
    refusal(client.get("/api/data", params={"model": "runs/short_lived"}))
    refusal(client.get("/api/audits/choices", params={"model": "runs/short_lived"}))
    goes_on(client)


def test_a_damaged_model_is_said_so(client, here):
    shutil.copytree(here / "runs/signs", here / "runs/damaged")
    (here / "runs/damaged/001/last.ckpt").write_bytes(b"not a checkpoint")
    assert "damaged" in refusal(client.get("/api/model", params={"model": "runs/damaged"}))
    shutil.rmtree(here / "runs/damaged")
    goes_on(client)


def test_what_breaks_inside_is_told_without_details(client, studio, monkeypatch):
    def breaks(name):
        raise RuntimeError("secret path /home/me")

    with monkeypatch.context() as patch:
        patch.setattr(studio.catalogue, "load", breaks)
        text = refusal(client.get("/api/model", params={"model": MODEL}), 500)
    assert "/home/me" not in text
    goes_on(client)


def test_the_data_of_a_model(client):
    """In short on the page, and whole as `cfgen data` writes it."""
    found = client.get("/api/data", params={"model": MODEL}).json()
    assert found["splits"] == {"train": 120, "val": 120, "test": 120}
    assert [one["attribute"] for one in found["attributes"]] == list(STATES)
    assert found["sheet"].startswith("data:image/png;base64,")
    assert found["check"]
    report = client.get("/data/report", params={"model": MODEL})
    assert "The causal graph" in report.text
    assert "<b>wet" not in report.text
    assert "script-src 'none'" in report.headers["content-security-policy"]


def connection(live):
    return http.client.HTTPConnection("127.0.0.1", live.port, timeout=30)


def test_200_megabytes_are_refused_before_they_are_sent(live):
    asking = connection(live)
    asking.putrequest("POST", f"/api/upload?model={MODEL}")
    asking.putheader("X-Client", "tester")
    asking.putheader("Content-Length", "200000000")
    asking.endheaders()
    answer = asking.getresponse()  # not a byte of it was sent
    assert answer.status == 413
    assert "20 MB" in json.loads(answer.read())["error"]
    assert list(live.studio.uploads.folder.iterdir()) == []


def test_an_upload_of_unknown_length_is_stopped_at_the_limit(live):
    asking = connection(live)
    asking.putrequest("POST", f"/api/upload?model={MODEL}")
    asking.putheader("X-Client", "tester")
    asking.putheader("Transfer-Encoding", "chunked")
    asking.endheaders()
    chunk = b"x" * 1_000_000
    for _ in range(MOST_BYTES // len(chunk) + 1):
        asking.send(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
    assert asking.getresponse().status == 413
    assert list(live.studio.uploads.folder.iterdir()) == []


def test_a_client_that_goes_away_while_it_sends(live):
    asking = connection(live)
    asking.putrequest("POST", f"/api/upload?model={MODEL}")
    asking.putheader("X-Client", "tester")
    asking.putheader("Content-Length", "1000000")
    asking.endheaders()
    asking.send(b"x" * 1000)
    waited_for(lambda: list(live.studio.uploads.folder.iterdir()))
    asking.close()
    waited_for(lambda: not list(live.studio.uploads.folder.iterdir()))
    asking = connection(live)
    asking.request("POST", "/api/answer", asked(do={"size": 2.0}), {"X-Client": "tester"})
    assert asking.getresponse().status == 200
