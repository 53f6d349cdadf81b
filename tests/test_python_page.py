"""docs/python.md as a reader follows it: its lines run, and its table names what there is."""

import functools
import pkgutil
import re
from pathlib import Path

import pytest

import cfgen

PAGE = (Path(__file__).parents[1] / "docs" / "python.md").read_text()
(EXAMPLE,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.slow
def test_the_example_runs(tmp_path, monkeypatch, digits_cache):
    """Every line, on less data and with fewer images."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    faces = "data={'count': 100, 'batch_size': 20}, model={'width': 0.05}, trainer={'max_epochs': 1, 'enable_progress_bar': False}"
    digits = f"data={{'limit': 300, 'cache_dir': {str(digits_cache)!r}}}, model={{'width': 0.1}}, "
    digits += 'trainer={"max_epochs": 1, "enable_progress_bar": False}'
    small = EXAMPLE.replace('trainer={"max_epochs": 2}', digits)
    small = small.replace('cfgen.train("faces_classifier")', f'cfgen.train("faces_classifier", {faces})')
    small = re.sub(r"count=\d+", "count=8", small)
    assert small.count("count=8") == 3
    # the packaged faces were trained on 20,000: their data, made small
    from datamodules import Faces

    original = Faces.__init__

    @functools.wraps(original)
    def few(self, *arguments, **options):
        original(self, *arguments, **options | {"count": 100})

    monkeypatch.setattr(Faces, "__init__", few)
    names: dict = {}
    exec(small, names)
    assert (tmp_path / "my_audit" / "report.html").is_file()
    assert names["thicker"].images.shape == names["x"].shape
    assert {"mse_x"} <= set(names["scores"].to_frame().index)


def test_the_table_names_what_there_is():
    methods = re.findall(r"`model\.(\w+)\(", PAGE)
    assert methods
    for name in methods:
        assert callable(getattr(cfgen.CounterfactualModel, name))
    functions = re.findall(r"`(cfgen\.[\w.]+)\(", PAGE)
    assert {"cfgen.load", "cfgen.audit.write_report"} <= set(functions)
    for name in functions:
        assert callable(pkgutil.resolve_name(name))


def test_a_model_has_what_the_functions_have():
    assert set(cfgen.__all__) <= set(dir(cfgen))
    with pytest.raises(AttributeError):
        _ = cfgen.nothing
