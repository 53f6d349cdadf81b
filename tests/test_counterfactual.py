"""`sweep` and what it is asked: everything once, and no more memory than a batch needs."""

import numpy as np
import pytest
import torch

from cfgen.counterfactual import BATCH_SIZE, Asked, as_unit_float, asked_of, spread, sweep
from tests.fakes import Drawing, Painted, Painter, fitted

COUNT = 25


@pytest.fixture(scope="module")
def data():
    data = Painted(rows=COUNT, batch_size=5, edges=[["Black_Hair", "Bangs"]])
    data.setup()
    return data


@pytest.fixture(scope="module")
def painter(data):
    return fitted(Painter, data)


@pytest.fixture(scope="module")
def columns(data):
    return data.columns("test")


def test_unit_floats():
    levels = torch.tensor([0, 51, 255], dtype=torch.uint8)
    torch.testing.assert_close(as_unit_float(levels), torch.tensor([0.0, 0.2, 1.0]))
    assert levels.tolist() == [0, 51, 255]  # not changed in place
    floats = torch.rand(3, dtype=torch.double)
    assert as_unit_float(floats) is floats


def test_counterfactuals_are_exact_for_a_mechanism_that_is(data, painter, columns):
    asked = {"pale": asked_of(painter, columns, {"Pale_Skin": 1})}
    for batch in sweep(painter, data.images("test"), columns, asked, batch_size=10):
        a = batch.a.clone()
        a[:, 1] = 1
        expected = batch.x + torch.einsum("nk,kchw->nchw", a - batch.a, painter.stripes)
        torch.testing.assert_close(batch.a_c("pale"), a)
        torch.testing.assert_close(batch.x_c("pale"), expected)
        torch.testing.assert_close(batch.x_r, batch.x)


def test_effects_follow_and_two_interventions_share_their_noise(painter, columns):
    one, again, both = (asked_of(painter, columns, do, seed=3).a_c for do in ({"Black_Hair": 1},) * 2 + ({"Bangs": 1},))
    assert torch.equal(one, again)
    assert (one[:, 0] == 1).all()
    assert (one[:, 2] != painter.scm.schema.encode(columns)[:, 2]).any()  # Bangs follows hair
    assert torch.equal(both[:, 0], columns["Black_Hair"])  # and not the other way round


def test_each_state_and_each_counterfactual_is_computed_once(data, painter, columns):
    asked = {
        "pale": asked_of(painter, columns, {"Pale_Skin": 1}),
        "hair": asked_of(painter, columns, {"Black_Hair": 0}),
    }
    Painter.calls.clear()
    for batch in sweep(painter, data.images("test"), columns, asked, batch_size=10):
        for _ in range(3):
            batch.z, batch.x_r, batch.x_c("pale"), batch.x_c("hair")
    assert Painter.calls == {"abduct": 3, "decode": 9}
    Painter.calls.clear()
    for batch in sweep(painter, data.images("test"), columns, asked, batch_size=10):
        batch.a_c("pale")
    assert Painter.calls == {}  # nothing is computed that nobody looks at
    for batch in sweep(painter, data.images("test"), columns, asked, batch_size=25):
        batch.z_c("pale"), batch.z_c("pale")
    assert Painter.calls == {"abduct": 2, "decode": 1}


def test_asking_only_of_those_that_lack_it(data, painter, columns):
    asked = {"pale": asked_of(painter, columns, {"Pale_Skin": 1, "Black_Hair": 1}, changed_only=True)}
    lacking = (columns["Pale_Skin"] == 0) | (columns["Black_Hair"] == 0)
    assert torch.equal(asked["pale"].of, lacking)
    assert asked["pale"].count == lacking.sum()
    every = {"pale": Asked(asked["pale"].a_c, torch.ones(COUNT, dtype=torch.bool))}
    (batch,) = sweep(painter, data.images("test"), columns, asked, batch_size=COUNT)
    (whole,) = sweep(painter, data.images("test"), columns, every, batch_size=COUNT)
    torch.testing.assert_close(batch.x_c("pale"), whole.x_c("pale")[lacking])
    brightness = batch.spread("pale", batch.x_c("pale").mean(dim=(1, 2, 3)))
    assert torch.equal(brightness.isnan(), ~lacking)
    torch.testing.assert_close(brightness[lacking], whole.x_c("pale").mean(dim=(1, 2, 3))[lacking])


def test_asked_of_nobody(data, painter, columns):
    nobody = {"do": Asked(painter.scm.schema.encode(columns), torch.zeros(COUNT, dtype=torch.bool))}
    for batch in sweep(painter, data.images("test"), columns, nobody, batch_size=10):
        assert batch.x_c("do").shape == (0, 1, 28, 28)
        assert batch.spread("do", torch.zeros(0)).isnan().all()
    assert list(sweep(painter, data.images("test")[:0], {n: c[:0] for n, c in columns.items()})) == []


def test_spread():
    of = torch.tensor([False, True, True])
    assert spread(torch.tensor([1, 2]), of).nan_to_num(nan=-1).tolist() == [-1, 1, 2]
    assert spread(torch.ones(2, 4), of).shape == (3, 4)


def test_images_may_be_a_memory_map_of_which_a_batch_is_read_at_a_time(data, painter, columns, tmp_path):
    np.save(tmp_path / "x.npy", data.images("test").numpy())
    mapped = torch.from_numpy(np.load(tmp_path / "x.npy", mmap_mode="c"))
    one, other = (
        torch.cat([batch.x_r for batch in sweep(painter, x, columns, batch_size=4)])
        for x in (mapped, data.images("test"))
    )
    assert torch.equal(one, other)


def test_progress_adds_up_over_processes(data, painter, columns):
    """Each process tells of its own images and, so that a bar of one shows the whole, of as many of the others'."""
    for share, total in (((0, 1), COUNT), ((0, 2), 2 * 13), ((1, 2), 2 * 12)):
        told = []
        for _ in sweep(painter, data.images("test"), columns, batch_size=4, share=share, advance=told.append):
            pass
        assert sum(told) == total


def test_noise_belongs_to_the_image_and_the_stream(data, columns):
    drawing = fitted(Drawing, data)
    (batch,) = sweep(drawing, data.images("test"), columns, seed=7)
    (part,) = sweep(drawing, data.images("test"), columns, seed=7, only=torch.tensor([20, 3]))
    assert torch.equal(batch.noise().normal(2)[[20, 3]], part.noise().normal(2))
    assert torch.equal(batch.noise().normal(2), batch.noise().normal(2))  # from the start each time
    assert not torch.equal(batch.noise(1).normal(2), batch.noise().normal(2))
    assert len(batch) == COUNT < BATCH_SIZE
