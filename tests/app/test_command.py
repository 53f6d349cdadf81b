"""`cfgen app` as a user types it."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from cfgen.commands.app import main
from tests.refusals import refusal

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_where_it_is_answers_and_cleans_up(tmp_path, stop):
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT), "DISPLAY": ""}
    words = [sys.executable, "-m", "cfgen.app", "morphomnist-hvae", "--port", "0", "--no_browser"]
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading ...\n"
        found = re.fullmatch(r"cfgen app: (http://127\.0\.0\.1:\d+/)\n", process.stdout.readline())
        assert found
        with urllib.request.urlopen(found[1], timeout=60) as answer:
            assert b"What if?" in answer.read()
        assert [path.name[:10] for path in tmp_path.glob("cfgen-app-*")] == ["cfgen-app-"]
        process.send_signal(stop)
        assert process.wait(60) in ({0} if stop == signal.SIGINT else {0, -signal.SIGTERM, 128 + signal.SIGTERM})
    assert not list(tmp_path.glob("cfgen-app-*"))


def test_refusals(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refusal(main, ["--port", taken.getsockname()[1]], capsys, "port")
    refusal(main, ["--port", "99999"], capsys, "port")
    refusal(main, ["--host", "no.such.host.invalid"], capsys, "host")
    refusal(main, ["nowhere", "--port", "0", "--no_browser"], capsys, "model")
    refusal(main, ["--classifier", "nowhere.onnx", "--port", "0", "--no_browser"], capsys, "classifier")
    refusal(main, ["--resize", "32"], capsys, "resize")  # of which classifier?
    refusal(main, ["--classifier", "x", "--mean", "a"], capsys, "mean")


def test_without_its_packages_it_says_what_to_install(monkeypatch, capsys):
    from cfgen.commands import app as command

    monkeypatch.setattr(command, "find_spec", lambda name: None)
    assert "cfgen[app]" in refusal(main, [], capsys)
