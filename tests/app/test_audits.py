"""The page "Audit": the numbers of `cfgen audit`, progress, cancelling, earlier audits and two side by side."""

import json
import re
import shlex
import shutil

import pytest
from starlette.testclient import TestClient

import cfgen
from cfgen.app import audits as module
from cfgen.app.audits import earlier_audits
from cfgen.app.comparison import compared
from cfgen.audit import write_report
from cfgen.commands.audit import main as audit_command
from cfgen.commands.audit import parser as audit_parser
from tests.app import world
from tests.app.conftest import waited_for
from tests.app.world import CLASSIFIER, MODEL, WET

ASKED = {"model": MODEL, "classifiers": [CLASSIFIER], "do": ["colour=green"], "count": 60, "judged": False}


@pytest.fixture(autouse=True)
def no_audits_left(here):
    yield
    shutil.rmtree(here / "runs/signs/001/audits", ignore_errors=True)


def started(client, **changed):
    answer = client.post("/api/audits", json={**ASKED, **changed})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def job(client, id):
    return next(one for one in client.get("/api/audits").json()["jobs"] if one["id"] == id)


def finished(client, id):
    waited_for(lambda: job(client, id)["state"] not in ("waiting", "running"))
    return job(client, id)


def command_of(folder):
    """The command that a report names, as words."""
    return shlex.split(json.loads((folder / "provenance.json").read_text())["command"])


def test_choices_count_the_images(client):
    found = client.get("/api/audits/choices", params={"model": MODEL}).json()
    assert found["images"] == 120
    assert found["classifiers"] == [
        {"name": name, "classes": [], "problem": ""} for name in (CLASSIFIER, "runs/sign_classifier")
    ]
    by_name = {one["name"]: one for one in found["attributes"]}
    assert sum(by_name["colour"]["counts"]) == sum(by_name[WET]["counts"]) == 120
    assert (by_name["size"]["low"], by_name["size"]["high"]) == (1.0, 5.0)
    asked = {"model": MODEL, "do": ["colour=green", f"colour=green,{WET}=1"]}
    one, both = client.post("/api/audits/count", json=asked).json()["interventions"]
    assert (one["do"], one["asked"]) == ("colour=green", by_name["colour"]["counts"][0])
    assert f"{by_name['colour']['counts'][1]} of 120 test images have it already" in one["told"]
    assert both["asked"] > one["asked"]
    for wrong in (
        ["colour=gren"],
        ["size=99"],
        ["x"],
        [],
        "colour=green",
        ["colour=+1"],
        ["size=1:99"],
        ["size=+1,gloss=2"],
    ):
        assert client.post("/api/audits/count", json={"model": MODEL, "do": wrong}).status_code == 400


def test_shifts_and_comparisons_are_counted_by_the_images_that_they_change(client):
    data = world.Signs()
    data.setup("test")
    size, spread = data.columns("test")["size"], data.columns("train")["size"].std(correction=0)
    asked = {"model": MODEL, "do": ["size=+1", "size=-1sd", "size=2:4"]}
    up, down, contrast = client.post("/api/audits/count", json=asked).json()["interventions"]
    assert up["asked"] == (size + 1 <= 5).sum()
    assert down["asked"] == (size - spread >= 1).sum()
    assert contrast["asked"] == 120
    assert "leave the range" in up["told"]


@pytest.mark.parametrize(
    ("classifier", "inputs", "changed"),
    [
        (CLASSIFIER, [], {"do": ["size=+1sd", "size=2:4"], "among": ["colour=red", f"colour=red,{WET}=1"]}),
        (CLASSIFIER, [], {"subgroups": True}),
        (world.SHADES, [], {"focus": ["class 0", "class 2"]}),
        (world.SHADES, ["--classes", "dark,middle,light"], {"do": ["size=5"]}),
        (world.MEAN, ["--output", "value"], {}),
    ],
)
def test_what_the_page_asks_is_what_the_command_asks(here, classifier, inputs, changed):
    """The report's command, typed, finds the same."""
    from cfgen.app.catalogue import Catalogue
    from cfgen.app.server import create_app
    from cfgen.app.studio import Studio

    options = dict(zip((word.lstrip("-") for word in inputs[::2]), inputs[1::2], strict=True))
    if "classes" in options:
        options["classes"] = options["classes"].split(",")
    studio = Studio(Catalogue(MODEL, [classifier], options), inputs)
    with TestClient(create_app(studio, "testserver"), headers=world.HEADERS) as client:
        done = finished(client, started(client, classifiers=[classifier], **changed))
    assert (done["state"], done["message"]) == ("done", "")
    found = json.loads((here / "runs/signs/001/audits/001/audit.json").read_text())
    words = command_of(here / "runs/signs/001/audits/001")
    assert words[:2] == ["cfgen", "audit"]
    assert audit_command(words[2:]) == 0
    again = json.loads((here / "runs/signs/001/audits/002/audit.json").read_text())
    for name in ("classifiers_audited", "subgroups", "classes", "label"):
        assert found.get(name) == again.get(name)
    assert bool(found.get("subgroups")) == bool(changed.get("subgroups"))


def test_a_classifier_that_cannot_be_asked_is_named_with_the_reason(here):
    from cfgen.app.catalogue import Catalogue
    from cfgen.app.server import create_app
    from cfgen.app.studio import Studio

    studio = Studio(Catalogue(MODEL, [CLASSIFIER], {"output": "class"}))
    with TestClient(create_app(studio, "testserver"), headers=world.HEADERS) as client:
        first, second = client.get("/api/audits/choices", params={"model": MODEL}).json()["classifiers"]
    assert first["problem"]
    assert second["problem"] == ""


def test_classes_are_compared_each_with_itself(here):
    model = cfgen.load(MODEL)
    for number, do in enumerate((["size=5"], ["size=5", "colour=green"]), 1):
        result = model.audit(world.SHADES, do=do, count=40, predictor=None)
        write_report(result, here / f"runs/signs/001/audits/{number:03d}")
    known = earlier_audits([MODEL])
    found = compared(known[f"{MODEL}#001"], known[f"{MODEL}#002"])
    assert [one["classifiers"] for one in found["titles"]] == [[world.SHADES]] * 2
    both = [row for row in found["rows"] if row["do"] == "size=5"]
    assert [row["of_class"] for row in both] == ["class 0", "class 1", "class 2"]
    assert [row["difference"] for row in both] == [0, 0, 0]


def test_an_audit_runs_to_the_report_of_the_library(client, here):
    done = finished(client, started(client))
    assert (done["state"], done["message"]) == ("done", "")
    found = json.loads((here / "runs/signs/001/audits/001/audit.json").read_text())
    wanted = cfgen.load(MODEL).audit(CLASSIFIER, do=["colour=green"], count=60, predictor=None).to_dict()
    assert found["classifiers_audited"] == json.loads(json.dumps(wanted["classifiers_audited"]))
    audit_parser().parse_args(command_of(here / "runs/signs/001/audits/001")[2:])  # it can be typed
    report = client.get("/audit/report", params={"id": done["report"]})
    assert report.text == (here / "runs/signs/001/audits/001/report.html").read_text()
    policy = report.headers["content-security-policy"]
    assert "script-src 'none'" in policy
    assert re.search(r"style-src 'sha256-[\w+/]+='", policy)
    (listed,) = client.get("/api/audits").json()["earlier"]
    assert (listed["id"], listed["do"], listed["images"]) == (f"{MODEL}#001", ["colour=green"], 60)


def test_two_audits_side_by_side(client, here):
    """One from here and one as the command writes it."""
    finished(client, started(client))
    model = cfgen.load(MODEL)
    result = model.audit(CLASSIFIER, do=["colour=green", "size=5"], count=40, predictor=None)
    write_report(result, here / "runs/signs/001/audits/002")
    one, other = earlier_audits([MODEL])[f"{MODEL}#001"], earlier_audits([MODEL])[f"{MODEL}#002"]
    del client.headers["X-Client"]
    text = client.get("/audit/compare", params={"one": one.id, "other": other.id}).text
    assert "not asked" in text  # size=5 in the first
    for audit in (one, other):
        for row in audit.found()["classifiers_audited"][0]["interventions"]:
            estimate = row["combined"] or row["generator"]
            assert f"{estimate['value']:+.3f}".replace("-", "\N{MINUS SIGN}") in text
            assert row["verdict"]["words"] in text
    (here / "runs/signs/001/audits/002/audit.json").write_text("{")
    assert client.get("/audit/compare", params={"one": one.id, "other": other.id}).status_code == 400
    client.headers["X-Client"] = "tester"
    assert [one["id"] for one in client.get("/api/audits").json()["earlier"]] == [one.id]


def test_cancelling_stops_at_the_next_batch_and_leaves_nothing(client, studio, here, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 1)
    told = []
    id = started(client)
    running = studio.audits[id]
    waited_for(lambda: told.append(running.done) or running.done >= 3 or running.state == "done")
    waiting = started(client)
    assert job(client, waiting)["position"] == 1
    for one in (id, waiting):
        assert client.post("/api/audits/cancel", json={"id": one}).status_code == 200
    assert [finished(client, one)["state"] for one in (id, waiting)] == ["cancelled", "cancelled"]
    assert told == sorted(told)
    assert running.done < 60
    assert not list(here.glob("runs/signs/001/audits/*"))
    assert finished(client, started(client))["state"] == "done"  # the next one runs


def test_sliders_go_first(studio, here):
    """While an audit runs, questions are answered between its batches."""
    order = []
    wait = studio.sliders.wait_until_idle
    studio.sliders.wait_until_idle = lambda seconds: order.append("audit") or wait(seconds)
    made = studio.audits.start("me", ASKED)
    answers = 0
    while made.state in ("waiting", "running"):
        studio.sliders.submit("you", "answer", lambda: order.append("slider")).result(30)
        answers += 1
    assert made.state == "done"
    assert order.count("audit") == 5  # at the start, three batches of 20, the report
    assert order.count("slider") == answers > 0


@pytest.mark.parametrize(
    ("changed", "argument"),
    [
        ({"model": "nowhere"}, "model"),
        ({"classifiers": []}, "classifier"),
        ({"classifiers": ["os:system"]}, "classifier"),
        ({"classifiers": "x"}, "classifier"),
        ({"do": []}, "do"),
        ({"do": ["colour=green"] * 21}, "do"),
        ({"do": [3]}, "do"),
        ({"among": "colour=red"}, "among"),
        ({"among": [1]}, "among"),
        ({"focus": 3}, "class"),
        ({"count": 0}, "count"),
        ({"count": 10**9}, "count"),
        ({"count": "many"}, "count"),
    ],
)
def test_bad_audits_are_refused(client, changed, argument):
    answer = client.post("/api/audits", json={**ASKED, **changed})
    assert (answer.status_code, answer.json()["argument"]) == (400, argument)


def test_an_audit_that_cannot_be_made_says_why(client, here):
    for changed in ({"do": ["colour=gren"]}, {"do": ["size=99"]}, {"among": ["size=2"]}, {"focus": ["class 7"]}):
        done = finished(client, started(client, **changed))
        assert done["state"] == "failed"
        assert done["message"]
        assert "\n" not in done["message"]
    assert not list(here.glob("runs/signs/001/audits/*"))


def test_a_model_that_is_deleted_in_mid_audit(client, studio, here, monkeypatch):
    shutil.copytree(here / "runs/signs", here / "runs/short_lived")
    monkeypatch.setattr(module, "BATCH", 1)
    id = started(client, model="runs/short_lived")
    waited_for(lambda: studio.audits[id].done >= 3)
    shutil.rmtree(here / "runs/short_lived")
    assert finished(client, id)["state"] in ("done", "failed")  # what is in memory may be enough
    shutil.rmtree(here / "runs/short_lived", ignore_errors=True)
    assert finished(client, started(client))["state"] == "done"


def test_nobody_has_to_wait_for_an_audit_to_be_made(live, here):
    """The tab that started it is closed: it is made all the same."""
    import http.client

    asking = http.client.HTTPConnection("127.0.0.1", live.port)
    asking.request("POST", "/api/audits", json.dumps(ASKED), {"X-Client": "gone"})
    asking.close()
    waited_for(lambda: [one.state for one in live.studio.audits.jobs.values()] == ["done"])


def test_two_classifiers_are_compared_in_one_audit(client, here):
    done = finished(client, started(client, classifiers=[CLASSIFIER, "runs/sign_classifier"]))
    assert done["state"] == "done", done["message"]
    found = json.loads((here / "runs/signs/001/audits/001/audit.json").read_text())
    assert [one["classifier"] for one in found["classifiers_audited"]] == [CLASSIFIER, "runs/sign_classifier"]
    assert found["contrasts"]
