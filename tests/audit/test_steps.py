"""The steps of an audit: saved tables give the same results in another process, without model, networks and images."""

import dataclasses
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from cfgen.api import load
from cfgen.attributes import Schema
from cfgen.audit import estimate, illustrate
from cfgen.audit._transformations import AFFINE
from cfgen.audit.answers import AUDIT, PAIRS, RECONSTRUCTION, Answers, Picture, Readings
from cfgen.audit.questions import Questions, load_questions
from cfgen.classifiers import ExternalClassifier
from cfgen.effects.strength import Strength
from cfgen.errors import UserError
from cfgen.scm.graph import CausalGraph
from lightning_modules import Predictor
from tests.audit.herd import Animals, Herd, Weighs, herd_run
from tests.audit.shifting import Blueish, Reddish, Shift
from tests.fakes import BINARY, Painted, Painter, ReadStripes, finished, fitted

ROOT = Path(__file__).parents[2]
ANSWERS = ["answer", "arm", "class_name", "classifier", "image_id", "intervention", "model", "picture", "sample"]
READINGS = ["arm", "image_id", "intervention", "model", "output", "picture", "value"]
ODD = ("do:old", "pairs:wet", "toggle")


def audit_of_faces(world, data, faces_cache):
    """Yes or no, with nearly everything that can be asked; of data that knows the truth."""
    shutil.copytree(faces_cache, world / "cache")
    settings = {"count": data.count, "cache_dir": str(world / "cache")}
    config = {"data": {"class_path": "datamodules.Faces", "init_args": settings}}
    torch.manual_seed(0)
    predictor = Predictor(data.scm_spec, data.image_shape, width=0.05).eval()
    classifiers = [ExternalClassifier(Reddish(), label="Attractive", threshold=0.4), Blueish()]
    return load(finished(fitted(Shift, data), world / "run", config)).audit(
        classifiers, do=["Young=0", "Pale_Skin=1"], hold=["Gray_Hair"], among=["Smiling=1"], subgroups=["Bangs"],
        pairs=20, explain=["Bangs", "Young"], explain_count=10, local=[3, 17], predictor=predictor,
    )  # fmt: skip


def audit_of_animals(world):
    """Three classes, every kind of intervention, pairs from outside, and toggles that change none of the images."""
    data = Herd()
    data.setup()
    young = (data.columns("val")["old"] == 0).nonzero()[:13, 0].tolist()
    lines = ["before,after,do,old,size,coat"]
    for before, after in pairwise(young):
        for name, row in (("before", before), ("after", after)):
            Image.fromarray(data.images("val")[row, 0].numpy()).save(world / f"{name}{before}.png")
        size, coat = (data.columns("val")[name][before] for name in ("size", "coat"))
        coat = data.schema["coat"].values[int(coat)]
        lines.append(f"before{before}.png,after{before}.png,old=1,0,{size.item()},{coat}")
    (world / "pairs.csv").write_text("\n".join(lines))
    return load(herd_run(world / "run")).audit(
        Animals(), do=["old=1", "coat=red", "size=+0.5", "size=1:2.2"], curves=["size=1,3"], among=["coat=grey"],
        subgroups=["coat"], hold=["size"], pairs=world / "pairs.csv", explain="all", explain_count=1, local=[650],
        predictor=ReadStripes(data.schema, strength=0.3),
    )  # fmt: skip


def audit_of_weights(world):
    model = load(herd_run(world / "run", continuous=True))
    return model.audit(
        ExternalClassifier(Weighs(), output="value"), do=["old=1", "size=-0.5sd", "size=1:2.2"], subgroups=["old"],
        explain=["size"], explain_count=20, local=[2], keep_residual=True, models=[herd_run(world / "other")],
        predictor=ReadStripes(model.schema, strength=0.3),
    )  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory, data, faces_cache):
    """Audits and their folders by name.  What they were made from is then moved away."""
    found = {}
    for name, audit in (
        ("faces", lambda world: audit_of_faces(world, data, faces_cache)),
        ("animals", audit_of_animals),
        ("weights", audit_of_weights),
    ):
        world = tmp_path_factory.mktemp(name) / "world"
        world.mkdir()
        result = audit(world)
        found[name] = result, result.save(world.with_name("audit"))
        world.rename(world.with_name("moved"))
    return found


def test_another_process_finds_the_same_from_the_tables_alone(results, tmp_path):
    code = """if True:
        import json, sys
        from pathlib import Path
        from cfgen.audit import estimate
        for folder in sys.argv[1:]:
            text = json.dumps(estimate(folder).to_dict(), indent=1)
            Path(Path(folder).parent.name + ".json").write_text(text)
        print([name for name in sys.modules if name.startswith("tests")])
    """
    folders = [str(folder) for _, folder in results.values()]
    done = subprocess.run(
        [sys.executable, "-c", code, *folders], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "[]\n"  # neither the data nor the networks were imported
    for _, folder in results.values():
        again = (tmp_path / f"{folder.parent.name}.json").read_bytes()
        assert again == (folder / "audit.json").read_bytes()


@pytest.mark.parametrize("name", ["faces", "animals", "weights"])
def test_all_tables_are_the_same_from_the_folder(results, name):
    result, folder = results[name]
    again = estimate(folder)
    assert again.warnings == result.warnings
    assert again.trusted == result.trusted
    for table, frame in result.frames().items():
        pd.testing.assert_frame_equal(again.frames()[table], frame, check_exact=True)
    assert set(again.files()) == set(result.files())
    for file, contents in again.files().items():
        if file != "provenance.json":
            assert contents == result.files()[file], file
    with pytest.raises(UserError, match="without models and images"):
        illustrate(again.questions, again)


def test_the_audits_have_all_that_is_saved(results):
    """So that the tests above are about something."""
    faces, animals, weights = (result for result, _ in results.values())
    assert faces.first.accuracy > 0
    assert len(faces.differences) == 2 * 2
    assert {row.effect.n_pairs for row in faces.first.findings if row.cohort == "everyone"} == {20}
    assert any(row.effect.kind == "direct" for row in faces.first.findings)
    assert any(row.strength is not None for row in faces.first.findings)
    assert faces.questions.has_truth
    assert any(picture.sample == PAIRS for picture in animals.answers.tables["Animals"])
    assert any(np.isnan(raw).all() for raw in animals.answers.tables["Animals"].values())
    assert animals.classes
    assert len(weights.questions.models) == 2
    for result in (faces, animals, weights):
        assert result.first.local
        assert result.importance
        assert result.first.subgroups


@pytest.mark.parametrize("name", ["faces", "animals", "weights"])
def test_files_are_json_that_every_reader_takes(results, name):
    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    for file in results[name][1].glob("*.json"):
        json.loads(file.read_text(), parse_constant=refuse)


@pytest.mark.parametrize("name", ["faces", "animals", "weights"])
def test_answers_are_one_row_for_each_image_picture_classifier_and_class(results, name):
    result, folder = results[name]
    questions, n = result.questions, len(result.questions.ids)
    frame = pd.read_parquet(folder / "answers.parquet")
    assert sorted(frame.columns) == ANSWERS
    assert frame["answer"].dtype == np.float32
    assert not frame.isna().any(axis=None)
    assert not frame.duplicated([column for column in frame.columns if column != "answer"]).any()
    names = {*AFFINE, "", *(one.name for one in (*questions.interventions, *questions.toggles))}
    assert set(frame["intervention"]) <= names
    assert set(frame["model"]) == {"", *questions.models}
    assert set(frame["sample"]) <= {AUDIT, PAIRS}
    for one in questions.classifiers:  # images and reconstructions are there once, whatever is asked about them
        mine = frame[(frame["classifier"] == one.name) & (frame["sample"] == AUDIT)]
        for picture, times in (("real", 1), (RECONSTRUCTION, len(questions.models))):
            assert (mine["picture"] == picture).sum() == n * len(one.outcome.columns) * times
    columns = {one.name: one.outcome.columns for one in questions.classifiers}
    again = Answers.from_frame(result.answers.to_frame(), questions.ids, columns)
    for classifier, pictures in result.answers.tables.items():
        known = {picture: raw for picture, raw in pictures.items() if not np.isnan(raw).all()}
        assert again.tables[classifier].keys() == known.keys()
        for picture, raw in known.items():
            np.testing.assert_array_equal(again[classifier, picture], raw)


@pytest.mark.parametrize("name", ["faces", "animals", "weights"])
def test_readings_come_back(results, name):
    result, folder = results[name]
    frame = pd.read_parquet(folder / "readings.parquet")
    assert sorted(frame.columns) == READINGS
    assert not frame.isna().any(axis=None)
    again = Readings.from_frame(frame, result.questions.ids)
    assert again.values.keys() == result.readings.values.keys()
    for key, values in result.readings.values.items():
        np.testing.assert_array_equal(again.values[key], values)
    assert {key[1] for key in again.values} > {"mse"}  # what the predictor reads, too


def test_tables_from_several_machines_are_concatenated_in_any_order(results):
    """Each with some of the images."""
    result, _ = results["faces"]
    columns = {one.name: one.outcome.columns for one in result.questions.classifiers}
    frame = result.answers.to_frame()
    odd = frame["image_id"].isin(list(result.questions.ids)[1::2])
    mixed = pd.concat([frame[odd].iloc[::-1], frame[~odd]])
    answers = Answers.from_frame(mixed, result.questions.ids, columns)
    again = estimate(result.questions, answers, result.readings)
    assert json.dumps(again.to_dict()) == json.dumps(result.to_dict())


def plain(value):
    """A value as what can be compared: tensors with their types, objects as their fields, NaN as text."""
    match value:
        case torch.Tensor():
            return [str(value.dtype), plain(value.tolist())]
        case float():
            return "nan" if math.isnan(value) else value
        case Schema():
            return value.spec
        case CausalGraph():
            return plain(value.edges)
        case Mapping():
            return {str(key): plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case _ if dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value)]
            return [type(value).__name__, plain({name: getattr(value, name) for name in names})]
        case _:
            assert value is None or isinstance(value, (int, str))
            return value


@pytest.mark.parametrize("name", ["faces", "animals", "weights"])
def test_questions_come_back_whole(results, tmp_path, name):
    questions = results[name][0].questions
    strengths = {"old=1": Strength(0.7, 0.6, 0.8, 0.6, 0.9, 0.1, True)}
    camera = torch.arange(len(questions.ids)) % 3
    questions = replace(questions, calibrated=strengths, extra={"camera": camera.float()})
    for file, contents in questions.files().items():
        (tmp_path / file).write_bytes(contents.encode() if isinstance(contents, str) else contents)
    again = load_questions(tmp_path)
    assert again.material is None
    for field in dataclasses.fields(Questions):
        if field.name != "material":
            assert plain(getattr(again, field.name)) == plain(getattr(questions, field.name)), field.name


@pytest.mark.parametrize("name", ["faces", "animals", "weights"])
def test_every_finding_leads_back_to_its_intervention(results, name):
    assert_found_by_name(results[name][0])


def assert_found_by_name(result):
    questions = result.questions
    names = [one.name for one in questions.interventions]
    assert len({*names, *(one.name for one in questions.toggles)}) == len(names) + len(questions.toggles)
    changes = [row.change for one in result.classifiers for row in (*one.findings, *one.subgroups)]
    changes += [one.change for one in result.differences]
    changes += [matrix.change for one in result.classes for matrix in one.matrices]
    changes += [name for points in questions.curves.values() for name in points]
    assert set(changes) == set(names)
    for name in changes:
        assert questions.intervention(name) is questions.interventions[names.index(name)]
    lines = {toggle.label: toggle for toggle in questions.toggles}
    assert {line.attribute for one in result.classifiers for line in (*one.importance, *one.local)} <= set(lines)


def test_names_of_attributes_are_not_taken_apart(tmp_path):
    data = Painted(dict.fromkeys(ODD, BINARY), rows=120)
    config = {"data": {"class_path": "tests.audit.test_steps.Oddly", "init_args": {}}}
    model = load(finished(fitted(Painter, data), tmp_path / "run", config))
    do = [*(f"{name}=1" for name in ODD), "do:old=0,toggle=1"]
    network = ExternalClassifier(Reddest(), label="pairs:wet")
    result = model.audit(network, do=do, among=["pairs:wet=0"], subgroups="all", predictor=None, local=[0])
    assert [row.change for row in result.first.findings if row.cohort == "everyone"] == do
    assert_found_by_name(result)
    folder = result.save(tmp_path / "audit")
    assert json.dumps(estimate(folder).to_dict(), indent=1) == (folder / "audit.json").read_text()


class Oddly(Painted):
    def __init__(self):
        super().__init__(dict.fromkeys(ODD, BINARY), rows=120)


class Reddest(torch.nn.Module):
    def forward(self, x):
        return 20 * (x.mean((1, 2, 3)) - 0.4)


def test_a_point_of_a_curve_that_is_asked_alone_too_is_one_intervention(tmp_path):
    model = load(herd_run(tmp_path / "run", rows=120))
    result = model.audit(Animals(), do=["size=1", "old=1"], curves=["size=1,2,1.0"], predictor=None, explain=())
    assert [one.name for one in result.questions.interventions] == ["size=1", "old=1", "size=2"]
    assert result.questions.curves == {"size": ("size=1", "size=2")}
    assert_found_by_name(result)
    (model_name,) = result.questions.models
    end = Picture("counterfactual", "size=1", "end", model_name)
    assert ("Animals", end) in result.answers
