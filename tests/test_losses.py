"""Losses against their equations written with sigmoid and log."""

import torch
from torch.nn import functional as F

from cfgen import losses
from cfgen.attributes import Schema


def scores() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, 50, generator=generator, dtype=torch.double).unbind()


def test_ali_is_eq_2():
    real, fake = scores()
    d_real, d_fake = real.sigmoid(), fake.sigmoid()
    torch.testing.assert_close(losses.ali_d(real, fake), -(d_real.log().mean() + (1 - d_fake).log().mean()))
    torch.testing.assert_close(losses.ali_eg(real, fake), -((1 - d_real).log().mean() + d_fake.log().mean()))


def test_ali_stays_finite_where_sigmoid_saturates():
    sure = torch.tensor([200.0, -200.0])
    for loss in (losses.ali_d, losses.ali_eg):
        assert loss(sure, sure).isfinite()


def test_players_oppose_each_other():
    """With the labels swapped, D's loss is E and G's."""
    real, fake = scores()
    torch.testing.assert_close(losses.ali_eg(real, fake), losses.ali_d(fake, real))


def test_r1_of_a_linear_function_is_half_its_squared_weight():
    w, x = torch.randn(5), torch.randn(7, 5, requires_grad=True)
    v, z = torch.randn(3), torch.randn(7, 3, requires_grad=True)
    penalty = losses.r1(x @ w + z @ v, (x, z))
    torch.testing.assert_close(penalty, 0.5 * (w @ w + v @ v))


def test_r1_can_be_differentiated_again():
    w, x = torch.randn(5, requires_grad=True), torch.randn(7, 5, requires_grad=True)
    losses.r1(x @ w, (x,)).backward()
    torch.testing.assert_close(w.grad, w.detach())


def test_attribute_error_by_kind():
    schema = Schema(
        {
            "t": {"kind": "continuous", "low": 0, "high": 1},
            "smiling": {"kind": "binary"},
            "label": {"kind": "categorical", "values": [0, 1, 2]},
        }
    )
    a = schema.encode({"t": torch.tensor([0.2, 0.9]), "smiling": torch.tensor([0, 1]), "label": torch.tensor([2, 0])})
    p = torch.randn(2, 5)
    log_p = F.log_softmax(p[:, 2:], dim=1)
    expected = (
        (p[:, 0] - a[:, 0]).abs().mean()
        - torch.stack([(1 - p[0, 1].sigmoid()).log(), p[1, 1].sigmoid().log()]).mean()
        - (log_p[0, 2] + log_p[1, 0]) / 2
    )
    torch.testing.assert_close(losses.attributes(p, a, schema), expected)


def test_a_perfect_reading_of_continuous_attributes_costs_nothing():
    schema = Schema({"t": {"kind": "continuous", "low": 0, "high": 1}})
    a = torch.rand(4, 1)
    assert losses.attributes(a, a, schema) == 0
