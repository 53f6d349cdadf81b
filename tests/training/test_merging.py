"""Several configs, and options beside them: a later list of classes takes the place of the earlier one, whole."""

import json
from pathlib import Path

import pytest
import yaml

from cfgen.training.cli import FitCLI
from cfgen.training.options import with_run_config

FIRST = """
model: {class_path: lightning_modules.Classifier}
data: {class_path: datamodules.Faces, init_args: {count: 40}}
trainer:
  callbacks:
    - class_path: callbacks.Bias
      init_args: {do: [{Bangs: 1}], accuracy: 0.7, images: 50, every_n_epochs: 3}
    - class_path: callbacks.BestCheckpoint
      init_args: {monitor: val/accuracy, mode: max}
"""
LATER = [{"class_path": "callbacks.Bias"}, {"class_path": "callbacks.BestCheckpoint"}]


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "first.yaml").write_text(FIRST)
    return tmp_path


def later(**trainer) -> list[str]:
    Path("later.yaml").write_text(yaml.safe_dump({"trainer": trainer}))
    return ["--config", "later.yaml"]


def callbacks(words: list[str]) -> list[dict]:
    return FitCLI(words).dump()["trainer"]["callbacks"]


def alone(*given) -> list[dict]:
    """What callbacks come to where nothing came before them."""
    return callbacks(["--config", "first.yaml", "--trainer.callbacks=[]", f"--trainer.callbacks+={json.dumps(given)}"])


@pytest.mark.parametrize("given", [LATER, LATER[:1], LATER[::-1]], ids=["same places", "fewer", "other places"])
@pytest.mark.parametrize("how", ["config", "option"])
def test_a_later_list_inherits_nothing(how, given):
    words = later(callbacks=given) if how == "config" else [f"--trainer.callbacks={json.dumps(given)}"]
    first = callbacks(["--config", "first.yaml"])
    merged = callbacks(["--config", "first.yaml", *words])
    assert merged == alone(*given)
    assert first[0]["init_args"]["accuracy"] == 0.7
    assert not any(one["init_args"].get("accuracy") == 0.7 for one in merged)


def test_one_callback_in_the_place_of_a_list_and_a_list_in_the_place_of_one():
    one = {"class_path": "callbacks.Bias", "init_args": {"do": [{"Bangs": 1}], "accuracy": 0.7}}
    single = f"--trainer.callbacks={json.dumps(one)}"
    assert [callbacks(["--config", "first.yaml", single])] == alone(one)
    Path("single.yaml").write_text(yaml.safe_dump({"trainer": {"callbacks": one}}))
    assert callbacks(["--config", "first.yaml", "--config", "single.yaml", *later(callbacks=LATER)]) == alone(*LATER)


@pytest.mark.parametrize("how", ["config", "option"])
def test_a_plus_appends_and_leaves_the_earlier_ones_as_they_are(how):
    words = later(**{"callbacks+": LATER}) if how == "config" else [f"--trainer.callbacks+={json.dumps(LATER)}"]
    first = callbacks(["--config", "first.yaml"])
    assert callbacks(["--config", "first.yaml", *words]) == [*first, *alone(*LATER)]
    # the options of a callback named one by one are those of the last
    named = ["--trainer.callbacks+=callbacks.Bias", "--trainer.callbacks.accuracy=0.9"]
    *before, last = callbacks(["--config", "first.yaml", *named])
    assert before == first
    assert last["init_args"] == alone(LATER[0])[0]["init_args"] | {"accuracy": 0.9}


def test_what_is_no_list_is_merged():
    words = ["--config", "first.yaml", *later(max_epochs=7), "--trainer.max_steps=9"]
    trainer = FitCLI(words).dump()["trainer"]
    assert (trainer["max_epochs"], trainer["max_steps"]) == (7, 9)
    assert trainer["callbacks"] == callbacks(["--config", "first.yaml"])


def test_a_saved_config_says_the_list_and_a_run_that_goes_on_replaces_it(workplace):
    saved = FitCLI(["--config", "first.yaml", *later(callbacks=LATER)]).dump()
    run = workplace / "runs/first/001"
    run.mkdir(parents=True)
    (run / "config.yaml").write_text(yaml.safe_dump(saved))
    again = with_run_config(["--ckpt_path", str(run)])
    assert callbacks(again) == saved["trainer"]["callbacks"] == alone(*LATER)
    changed = [{"class_path": "callbacks.BestCheckpoint"}, {"class_path": "callbacks.Bias"}]
    assert callbacks([*again, f"--trainer.callbacks={json.dumps(changed)}"]) == alone(*changed)


CODE = """
import pytorch_lightning as pl

class Part:
    def __init__(self, size: int = 1, name: str = "none"): ...

class Model(pl.LightningModule):
    def __init__(self, parts: list[Part]): ...
"""


def test_lists_of_classes_in_a_model_are_replaced_too(workplace, monkeypatch):
    (workplace / "own_parts.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(workplace))

    def parts(words: list[str]) -> list[dict]:
        return [one["init_args"] for one in FitCLI(words).dump()["model"]["init_args"]["parts"]]

    def model(**part) -> dict:
        return {
            "class_path": "own_parts.Model",
            "init_args": {"parts": [{"class_path": "own_parts.Part", "init_args": part}]},
        }

    for name, content in (("parts", model(size=5)), ("others", model(name="other"))):
        Path(f"{name}.yaml").write_text(yaml.safe_dump({"model": content}))
    words = ["--config", "first.yaml", "--config", "parts.yaml"]
    assert parts(words) == [{"size": 5, "name": "none"}]
    assert parts([*words, "--config", "others.yaml"]) == [{"size": 1, "name": "other"}]
    given = json.dumps(model(name="other")["init_args"]["parts"])
    assert parts([*words, f"--model.parts={given}"]) == [{"size": 1, "name": "other"}]


def test_a_packaged_config_keeps_its_own_callbacks_after_any_other():
    """The callbacks of `repair` are what it says, whatever config comes before it."""
    words = ["--config", "repair", "--model.do=[{Bangs: 1}]"]
    assert callbacks(["--config", "first.yaml", *words]) == callbacks(["--config", "repair", *words[2:]])
