"""Synthetic faces: the declared SCM and bias, the layout on disk, and counterfactual images that are true by construction."""

import contextlib
import io
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from cfgen.scm import AttributeSCM
from datamodules.celeba import CelebA
from datamodules.faces import files as faces_module
from datamodules.faces.data import Faces
from datamodules.faces.draw import paint
from datamodules.faces.scm import ATTRIBUTES, EDGES, EYES, INTERCEPT, PROBABILITIES, WEIGHTS, Population, draw
from datamodules.sources.celeba_files import ATTRIBUTES as CELEBA
from tests.processes import Pool

SPLITS = ("train", "val", "test")
MANY = 40_000


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def small(cache: Path) -> Faces:
    """200 faces at 64 x 64; set up, never changed by a test."""
    data = Faces(200, cache_dir=str(cache), batch_size=16)
    data.prepare_data()
    data.setup()
    return data


@pytest.fixture(scope="session")
def many() -> Population:
    """Many rows of the SCM, never drawn as images."""
    return draw(MANY, seed=3)


def matrix(attributes: dict[str, np.ndarray]) -> np.ndarray:
    return np.stack([attributes[name] for name in ATTRIBUTES], axis=1)


def close(share: float, p: float, rows: int) -> bool:
    return abs(share - p) < 4.5 * np.sqrt(p * (1 - p) / rows)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_frequencies_are_the_declared_probabilities(many: Population, name: str) -> None:
    attributes, p = many.attributes(), PROBABILITIES[name]
    groups = (
        [(attributes["Young"] == young, p[young]) for young in (0, 1)] if isinstance(p, tuple) else [(slice(None), p)]
    )
    for rows, wanted in groups:
        assert close(attributes[name][rows].mean(), wanted, len(attributes[name][rows]))


def test_nothing_else_depends_on_anything_else(many: Population) -> None:
    """Attributes without an edge between them, and the state of a face, are independent of each other."""
    attributes = many.attributes()
    state = np.stack([many.state[name] for name in many.state.dtype.names], axis=1)
    family = {"Young", *(effect for _, effect in EDGES)}
    rows = np.corrcoef(np.column_stack([matrix(attributes), state]), rowvar=False)
    for i, first in enumerate(ATTRIBUTES):
        for j in range(i + 1, len(rows)):
            related = first in family and j < len(ATTRIBUTES) and ATTRIBUTES[j] in family
            assert related or abs(rows[i, j]) < 5 / np.sqrt(MANY), (first, j)


def test_scm_fitted_on_the_rows_finds_the_probabilities(many: Population) -> None:
    spec = Faces().scm_spec
    columns = {name: torch.from_numpy(column) for name, column in many.attributes().items()}
    scm = AttributeSCM(**spec).fit(columns)
    table = scm.mechanisms["g_Gray_Hair"].table
    np.testing.assert_allclose(table[:, 1], PROBABILITIES["Gray_Hair"], atol=0.02)


def test_logistic_regression_finds_the_built_in_bias(many: Population) -> None:
    """Newton's method on the labels gives back the intercept, each weight and the weight of the eyes."""
    attributes = many.attributes()
    y = many.label(attributes)
    features = np.column_stack([np.ones(MANY), many.state["eyes"], matrix(attributes)])
    weights = np.zeros(features.shape[1])
    for _ in range(8):
        p = 1 / (1 + np.exp(-features @ weights))
        hessian = (features * (p * (1 - p))[:, None]).T @ features
        weights += np.linalg.solve(hessian, features.T @ (y - p))
    deviation = np.sqrt(np.diag(np.linalg.inv(hessian)))
    truth = np.array([INTERCEPT, EYES, *(WEIGHTS.get(name, 0.0) for name in ATTRIBUTES)])
    assert (np.abs(weights - truth) < 4 * deviation).all()
    assert deviation.max() < 0.06
    assert 0.4 < y.mean() < 0.6


def test_seed(many: Population) -> None:
    few, other = draw(50, seed=3), draw(50, seed=4)
    for name in ATTRIBUTES:
        np.testing.assert_array_equal(few.noise[name], many.noise[name][:50])
        assert not (few.noise[name] == other.noise[name]).any()
    np.testing.assert_array_equal(few.state, many.state[:50])


def test_structural_assignments(many: Population) -> None:
    """do(Young = 0) leaves what age does not cause; what it causes follows its own noise."""
    before, old = many.attributes(), many.attributes({"Young": 0})
    effects = {effect for _, effect in EDGES}
    assert effects == {"Eyeglasses", "Gray_Hair", "Receding_Hairline"}
    assert not old["Young"].any()
    for name in set(ATTRIBUTES) - {"Young"}:
        if name in effects:
            np.testing.assert_array_equal(old[name], many.noise[name] < PROBABILITIES[name][0])  # type: ignore[index]
            assert (old[name] >= before[name]).all()
        else:
            np.testing.assert_array_equal(old[name], before[name])
    both = many.attributes({"Young": 0, "Gray_Hair": 0})
    assert not both["Gray_Hair"].any()
    np.testing.assert_array_equal(both["Eyeglasses"], old["Eyeglasses"])


def test_known_before_data_is_read(tmp_path: Path) -> None:
    data = Faces(cache_dir=str(tmp_path / "nowhere"))
    assert list(data.scm_spec["attributes"]) == list(ATTRIBUTES)
    assert data.scm_spec["edges"] == EDGES
    assert data.image_shape == (3, 64, 64)
    assert set(ATTRIBUTES) <= set(CELEBA)
    assert not (tmp_path / "nowhere").exists()
    part = Faces(attributes=["Young", "Gray_Hair", "Bangs"])
    assert part.scm_spec["edges"] == [["Young", "Gray_Hair"]]
    config = yaml.safe_load((Path(__file__).parents[2] / "configs" / "data" / "faces.yaml").read_text())
    assert Faces(**config["init_args"]).scm_spec == data.scm_spec


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 9}, "count"),
        ({"attributes": ["Attractive"]}, "target"),
        ({"attributes": ["Male"]}, "unknown attribute 'Male'.*Valid: Attractive, Bangs, "),
        ({"seed": -1}, "seed"),
    ],
)
def test_wrong_options_are_refused_at_once(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Faces(**options)


def test_celebas_layout(small: Faces, tmp_path: Path) -> None:
    """The files are CelebA's, and CelebA reads them."""
    folder = small.folder()
    count, header, first, *_ = (folder / "list_attr_celeba.txt").read_text().splitlines()
    assert count == "200"
    assert header.split() == sorted((*ATTRIBUTES, "Attractive"))
    assert first.split()[0] == "000001.jpg"
    assert set(first.split()[1:]) <= {"1", "-1"}
    assert sorted(path.name for path in (folder / "img_align_celeba").iterdir()) == [
        f"{i + 1:06d}.jpg" for i in range(200)
    ]
    real = CelebA(str(folder), cache_dir=str(tmp_path), attributes=list(ATTRIBUTES), batch_size=16)
    real.setup()
    population = draw(200, 0)
    attributes = population.attributes()
    for split, rows in zip(SPLITS, (slice(160), slice(160, 180), slice(180, 200)), strict=True):
        assert torch.equal(real.images(split), small.images(split))
        np.testing.assert_array_equal(small.targets(split), population.label(attributes)[rows])
        for name in ATTRIBUTES:
            np.testing.assert_array_equal(small.columns(split)[name], attributes[name][rows])


@pytest.mark.parametrize("split", SPLITS)
def test_null_intervention_gives_the_image_back(small: Faces, split: str) -> None:
    a = small.schema.encode(small.columns(split))
    rows = torch.arange(len(a)).flip(0)  # any order
    assert torch.equal(small.true_counterfactual(split, rows, a[rows]), small.images(split)[rows])


# rows and columns of the 64 x 64 image that an attribute may change: from, to (not included)
REGIONS = {
    "Bangs": (4, 34, 14, 49),
    "Big_Nose": (26, 54, 17, 46),
    "Bushy_Eyebrows": (16, 36, 8, 56),
    "Eyeglasses": (19, 46, 4, 60),
    "Mouth_Slightly_Open": (40, 60, 15, 49),
    "Smiling": (37, 60, 15, 49),
    "Wearing_Earrings": (33, 57, 0, 64),
    "Wearing_Lipstick": (40, 60, 15, 49),
    "Receding_Hairline": (3, 46, 4, 60),
    "Young": (12, 57, 8, 56),
    "Pale_Skin": (3, 64, 0, 64),
    "Black_Hair": (0, 64, 0, 64),
    "Blond_Hair": (0, 64, 0, 64),
    "Brown_Hair": (0, 64, 0, 64),
    "Gray_Hair": (0, 64, 0, 64),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_an_attribute_shows_and_shows_in_its_place_alone(small: Faces, name: str) -> None:
    """do(name) changes every face whose value it changes, and no pixel outside the region that belongs to it."""
    a = small.schema.encode(small.train_columns)[:60]
    a_c = a.clone()
    a_c[:, small.schema.slices[name]] = 1 - a_c[:, small.schema.slices[name]]
    changed = (
        (small.true_counterfactual("train", range(60), a_c).int() - small.images("train")[:60].int()).abs().amax(1)
    )
    top, bottom, left, right = REGIONS[name]
    outside = changed.clone()
    outside[:, top:bottom, left:right] = 0
    assert not outside.any()
    assert ((changed > 24).flatten(1).sum(1) >= 3).all()
    assert (changed > 24).flatten(1).sum(1).float().mean() > 20


def test_every_combination_of_hair_colours_is_a_sight_of_its_own(small: Faces) -> None:
    colours = ("Black_Hair", "Blond_Hair", "Brown_Hair", "Gray_Hair")
    columns = {name: column[:1].repeat(16) for name, column in small.train_columns.items()}
    values = torch.tensor(list(product((0.0, 1.0), repeat=4)))
    a_c = small.schema.encode(columns | {name: values[:, i] for i, name in enumerate(colours)})
    images = small.true_counterfactual("train", [0] * 16, a_c).int()
    for i in range(16):
        for j in range(i):
            assert ((images[i] - images[j]).abs().amax(0) > 8).sum() > 100, (i, j)


def test_true_attributes(small: Faces) -> None:
    rows = torch.arange(20)
    same = small.true_attributes("test", rows, {})
    for name, column in small.columns("test").items():
        assert torch.equal(same[name], column)
    old = small.true_attributes("test", rows, {"Young": 0})
    assert not old["Young"].any()
    assert torch.equal(old["Bangs"], same["Bangs"])
    assert old["Gray_Hair"].sum() > same["Gray_Hair"].sum()
    with pytest.raises(ValueError, match="Did you mean 'Young'"):
        small.true_attributes("test", rows, {"Yong": 0})


def test_redrawn_faces_look_the_same_and_differ_where_the_image_does_not_tell(small: Faces) -> None:
    rows = list(range(12))
    assert torch.equal(small.redrawn_counterfactual("test", rows, {}, seed=3), small.images("test")[rows])
    part = small.redrawn_counterfactual("test", [4], {"Eyeglasses": 1}, seed=3)
    both = small.redrawn_counterfactual("test", [4, 7], {"Eyeglasses": 1}, seed=3)
    assert torch.equal(part[0], both[0])
    faces, other = small._everyone, small._everyone.redrawn(3)
    before, after = faces.attributes(), other.attributes()
    assert all((before[name] == after[name]).all() for name in ATTRIBUTES)
    bare = before["Eyeglasses"] == 0
    assert (faces.state["glasses"][~bare] == other.state["glasses"][~bare]).all()
    assert (faces.state["glasses"][bare] != other.state["glasses"][bare]).all()
    assert (faces.state["nose"] == other.state["nose"]).all()
    grown = {"Young": np.zeros(len(faces), dtype=int)}
    assert (faces.attributes(grown)["Gray_Hair"] != other.attributes(grown)["Gray_Hair"]).any()


def test_true_probability(small: Faces) -> None:
    a = small.schema.encode(small.columns("val"))
    pale, other = (small.schema.encode(small.columns("val") | {"Pale_Skin": torch.full((20,), v)}) for v in (1.0, 0.0))
    p, p_pale, p_other = (small.true_probability("val", range(20), v) for v in (a, pale, other))
    torch.testing.assert_close(torch.logit(p_pale) - torch.logit(p_other), torch.full((20,), WEIGHTS["Pale_Skin"]))
    label = draw(200, 0)[slice(160, 180)].label_noise < p.numpy()
    np.testing.assert_array_equal(label, small.targets("val") == 1)


def test_attributes_that_models_do_not_see_stay(small: Faces, cache: Path) -> None:
    part = Faces(200, cache_dir=str(cache), attributes=["Smiling", "Bangs"])
    part.setup()
    a = part.schema.encode(part.columns("test"))
    assert torch.equal(part.true_counterfactual("test", range(20), a), small.images("test"))
    with pytest.raises(ValueError, match="20 rows have 19"):
        part.true_counterfactual("test", range(20), a[:19])


def test_painting() -> None:
    """A face does not depend on those painted before it, and at 64 x 64 it is what the photograph shrinks to."""
    population = draw(12, seed=1)
    attributes = matrix(population.attributes())
    together = paint(population.state, attributes)
    assert together.shape == (12, 218, 178, 3)
    for row in (11, 3):
        one = paint(population.state[row : row + 1], attributes[row : row + 1])
        np.testing.assert_array_equal(one[0], together[row])
    small = paint(population.state, attributes, (64, 64), (15.0, 35.0, 148.0)).astype(float)
    window = together[:, 35:183, 15:163].astype(np.uint8)
    shrunk = torch.nn.functional.interpolate(
        torch.from_numpy(window).permute(0, 3, 1, 2).float(), (64, 64), mode="area"
    )
    assert np.abs(small - shrunk.permute(0, 2, 3, 1).numpy()).mean() < 3
    assert small.std(axis=0).mean() > 20  # no two faces alike


def test_interrupted_drawing_goes_on(
    cache: Path, small: Faces, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    paint_all = faces_module.paint

    def stop(state: np.ndarray, attributes: np.ndarray) -> Any:
        drawn.append(len(state))
        if len(drawn) == 3:
            raise KeyboardInterrupt
        return paint_all(state, attributes)

    monkeypatch.setattr(faces_module, "paint", stop)
    monkeypatch.setattr("datamodules.sources.packing.cores", lambda: 1)
    data = Faces(200, cache_dir=str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        data.folder()
    assert not [path for path in tmp_path.iterdir() if path.is_dir() and not path.name.startswith(".")]
    drawn.extend([0] * 10)
    data.folder()
    assert sum(drawn) <= 64 * 3 + 2 * 64 + 8  # what was written is kept
    for path in sorted((small.folder() / "img_align_celeba").iterdir())[::20]:
        assert path.read_bytes() == (data.folder() / "img_align_celeba" / path.name).read_bytes()


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def write_nothing(path: Path) -> None:
    path.write_bytes(b"nothing")


@pytest.mark.parametrize("damage", [flip_a_bit, write_nothing, Path.unlink])
@pytest.mark.parametrize("file", ["img_align_celeba/000042.jpg", "list_attr_celeba.txt", "list_eval_partition.txt"])
def test_what_is_damaged_or_missing_is_made_again(small: Faces, tmp_path: Path, damage: Any, file: str) -> None:
    """Nobody trains on a face with a flipped bit, or on one face less, without a word."""
    copied = shutil.copytree(small.folder(), tmp_path / small.folder().name)
    whole = (copied / file).read_bytes()
    damage(copied / file)
    data = Faces(200, cache_dir=str(tmp_path))
    data.setup()
    assert (copied / file).read_bytes() == whole
    for split in SPLITS:
        assert torch.equal(data.images(split), small.images(split))
        assert all(torch.equal(data.columns(split)[name], small.columns(split)[name]) for name in ATTRIBUTES)


def test_a_set_of_an_earlier_version_is_listed_and_completed(small: Faces, tmp_path: Path) -> None:
    copied = shutil.copytree(small.folder(), tmp_path / small.folder().name)
    (copied / faces_module.LISTING).unlink()
    (copied / "img_align_celeba" / "000007.jpg").unlink()
    data = Faces(200, cache_dir=str(tmp_path))
    data.setup()
    assert (copied / faces_module.LISTING).read_bytes() == (small.folder() / faces_module.LISTING).read_bytes()
    assert torch.equal(data.images("train"), small.images("train"))


def draw_faces(cache: str) -> tuple[int, str]:
    """In each of two processes: the sum of all pixels, and what was said."""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        data = Faces(20, cache_dir=cache)
        data.setup()
    return int(data.images("train").sum()), said.getvalue()


@pytest.mark.xdist_group("two_processes")
def test_two_processes_at_once(tmp_path: Path, two_processes: Pool) -> None:
    """Both succeed; one draws and packs, the other waits and reads."""
    sums, said = zip(*two_processes.run(draw_faces, str(tmp_path)), strict=True)
    assert sums[0] == sums[1]
    told = "".join(said)
    assert told.count("drawing faces: 20 images") == told.count("packing Faces at 64 x 64: 20 images") == 1, said
