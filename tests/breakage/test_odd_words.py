"""Labels, names and paths that mean something to matplotlib, rich or the file system are shown and refused as what they are."""

import os
from pathlib import Path

import pytest
import torch
from PIL import Image

from cfgen import figures
from cfgen.__main__ import main
from cfgen.audit.report import show as show_audit
from cfgen.checkpoints import located
from cfgen.errors import UserError
from cfgen.evaluation import evaluate
from cfgen.evaluation.terminal import show as show_evaluation
from cfgen.figures import image_grid
from cfgen.io.files import exists
from cfgen.progress import progress
from cfgen.reporting.dataset.sheet import contact_sheet
from cfgen.reporting.files import png
from cfgen.scm.graph import CausalGraph
from tests.audit.found import audited, result
from tests.breakage.tiny import WORDS, painted
from tests.fakes import BINARY, Painted
from tests.refusals import refusal

FORMULA, MARKUP = r"$\frac{$", "[/b]"
LONG = "x" * 300


@pytest.mark.parametrize("label", [FORMULA, MARKUP, ":smile: [red]x"])
def test_an_audit_with_that_label(here, capsys, label):
    assert main([*WORDS["audit"].split(), "--label", label, "--out", "found"]) == 0
    shown = capsys.readouterr().out
    assert label in " ".join(shown.split())
    assert (here / "found" / "report.html").is_file()


def test_figures_with_such_names():
    image = torch.zeros(1, 4, 4)
    drawn = [
        image_grid([[image]], [FORMULA], [FORMULA], [[FORMULA]], FORMULA),
        CausalGraph([FORMULA, "b"], [(FORMULA, "b")]).draw(FORMULA),
    ]
    data = Painted(attributes={"$x^$": BINARY, "b": BINARY}, rows=20)
    data.setup()
    drawn.append(contact_sheet(data, FORMULA))
    values = torch.tensor([1.0, 2.0])
    comparisons = [("floor", FORMULA, values, values), (f"do({FORMULA})", FORMULA, values, values)]
    drawn.append(figures.target_against_measured(comparisons))
    for figure in drawn:
        assert png(figure).startswith(b"\x89PNG")


def test_tables_with_such_names(here, capsys):
    show_audit(result(audited(name="[/red]", label=MARKUP)))
    assert f"towards {MARKUP}" in " ".join(capsys.readouterr().out.split())
    painted(here / "odd", attributes={"[i]": BINARY, "b": BINARY, "c": BINARY})
    show_evaluation(evaluate(here / "odd", metrics=["cycles", "reversibility"], predictor=["none"]))
    assert "[i]" in capsys.readouterr().out
    with progress("evaluating [/b]", 3) as advance:
        advance(3)
    assert "evaluating [/b]" in capsys.readouterr().err


def test_nothing_can_be_found_where_nothing_can_be_looked_at(here, monkeypatch):
    def closed(path, **options):
        if path.name == "run":
            raise PermissionError(13, "Permission denied", str(path))
        return os.stat(path, **options)

    assert not exists(LONG)
    assert not exists("a\0b")
    assert exists("run")
    monkeypatch.setattr(Path, "stat", closed)
    assert not exists("run")
    with pytest.raises(UserError):
        located("run")


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        (f"generate {LONG} --do Bangs=1", None),
        (f"generate run --do Bangs=1 --out {LONG}", "out"),
        (f"generate run --do Bangs=1 --images {LONG} --given Bangs=0", "images"),
        (f"evaluate {LONG}", None),
        (f"evaluate run other --out {LONG}", "out"),
        (f"evaluate run --predictor {LONG}", "predictor"),
        (f"evaluate run --classifier {LONG}", "classifier"),
        (f"audit --model {LONG} --classifier tests.audit.worlds:Bright --do Bangs=1", "model"),
        (f"audit --model run --classifier {LONG} --do Bangs=1", "classifier"),
        (f"audit --model run --classifier {LONG}:{LONG} --do Bangs=1", "classifier"),
        (f"{WORDS['audit']} --out {LONG}", "out"),
        (f"calibrate {LONG}", "model"),
        (f"export run {LONG}", "folder"),
        ("export run /dev/null/x", "folder"),
        ("export run /proc/x", "folder"),
        (f"verify {LONG}", "model"),
        (f"data morpho_mnist --limit 100 --cache_dir {LONG}", None),
        (f"data morpho_mnist --limit 100 --cache_dir cache --out {LONG}.png", None),
        (f"data morpho_mnist --source published --data_dir {LONG}", None),
        (f"fit --config {LONG}", None),
        (f"fit --config quickstart --runs_dir /dev/null/x --data.cache_dir {LONG}", None),
    ],
)
def test_names_that_are_too_long_and_places_that_are_none(here, capsys, words, argument):
    before = set(os.listdir(here))
    refusal(main, words.split(), capsys, argument)
    assert set(os.listdir(here)) == before


def test_pictures_with_long_names_and_slashes_in_values_get_files(here):
    name = f"{'ü' * 120}.png"
    Image.new("L", (28, 28)).save(name)
    painted(here / "fonts", attributes={"font": {"kind": "categorical", "values": ["a/b", "c"]}, "b": BINARY})
    words = ["generate", "fonts", "--do", "font=a/b", "--do", "font=c", "--images", name, "--given", "font=c,b=1"]
    assert main([*words, "--out", "made"]) == 0
    assert len(list((here / "made").iterdir())) == 2 + 4
    listed = (here / "made" / "attributes.csv").read_text().splitlines()[1:]
    assert all((here / "made" / line.split(",")[1].strip('"')).is_file() for line in listed)


@pytest.mark.skipif(not hasattr(os, "fork") or os.getuid() != 0, reason="only root can become somebody else")
def test_folders_that_are_closed_to_us(here, tmp_path):
    """As another user, in a process of its own: one line and exit code 2 for what may be neither read nor written."""
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:3]:
        if parent.stat().st_uid == 0 and parent != Path("/tmp"):
            parent.chmod(0o755)
    closed = here / "closed"
    closed.mkdir()
    closed.chmod(0o700)
    said = tmp_path / "said"
    said.touch()
    said.chmod(0o666)
    for words in ("generate closed/run --do Bangs=1", "export run made", "generate run --do Bangs=1", "verify closed"):
        child = os.fork()
        if not child:
            try:
                os.setuid(65534)
                os.dup2(os.open(said, os.O_WRONLY | os.O_TRUNC), 2)
                import sys

                sys.stderr = os.fdopen(2, "w")
                os._exit(main(words.split()))
            finally:
                os._exit(99)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2, (words, said.read_text())
        lines = said.read_text().splitlines()
        assert [line for line in lines if line.startswith("error: ")] == lines[-1:], words
        assert "Traceback" not in said.read_text()
