"""DeepSCM's networks against the published sizes and Appendix H's tables, and its pixel flow against autograd."""

import math

import pytest
import torch
from torch import nn

from cfgen.networks.pixel_flow import PixelFlow
from lightning_modules.deep_scm import DeepSCM

SCM = {
    "attributes": {
        "thickness": {"kind": "continuous", "low": 0.0, "high": 4.0},
        "label": {"kind": "categorical", "values": [0, 1, 2]},
    },
    "edges": [],
}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def test_networks_are_the_published_ones():
    """Sizes of the published Morpho-MNIST networks and of Appendix H's tables, by their weights' shapes."""
    digits, faces = (DeepSCM(SCM, shape) for shape in ((1, 28, 28), (3, 64, 64)))
    assert (digits.latent_dim, faces.latent_dim) == (16, 256)
    assert digits.sigma == faces.sigma == pytest.approx(math.exp(-2.5))

    def shapes(network: nn.Module) -> list[tuple[int, ...]]:
        layers = (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)
        return [tuple(layer.weight.shape) for layer in network.modules() if isinstance(layer, layers)]

    assert shapes(digits.E)[:3] == [(64, 1, 4, 4), (128, 64, 4, 4), (100, 6272)]
    assert shapes(digits.E)[3:] == [(100, 104), (16, 100), (16, 100)]
    assert shapes(digits.G) == [(1024, 20), (6272, 1024), (128, 64, 4, 4), (64, 1, 4, 4)]
    filters = [(32, 3, 3, 3), (64, 32, 3, 3), (128, 64, 3, 3), (256, 128, 3, 3), (256, 256, 1, 1)]
    assert shapes(faces.E) == [*filters, (256, 4100), (256, 4100)]
    ups = [(256, 256, 3, 3), (256, 128, 3, 3), (128, 64, 3, 3), (64, 32, 3, 3), (3, 32, 3, 3)]
    assert shapes(faces.G) == [(4096, 260), *ups]


@pytest.mark.parametrize("kind", ["logit", "unit"])
def test_pixel_flow_inverts_and_its_log_determinant_matches_autograd(kind):
    flow = PixelFlow(kind)
    v = (torch.rand(500).double() * 256).requires_grad_()
    y = flow.unconstrained(v)
    torch.testing.assert_close(flow.transform(y), v)
    (slope,) = torch.autograd.grad(y.sum(), v)
    torch.testing.assert_close(-flow.transform.log_abs_det_jacobian(y, v), slope.log())


@pytest.mark.parametrize("kind", ["logit", "unit"])
def test_every_grey_level_survives_dequantisation(kind):
    flow, x = PixelFlow(kind), torch.arange(256) / 255
    drawn = flow.dequantised(x)
    assert torch.equal(drawn.floor().clamp(max=255).round(), torch.arange(256).float())
    assert flow.unconstrained(drawn).isfinite().all()
    torch.testing.assert_close(flow.image(flow.unconstrained(flow.centred(x))), x, rtol=0, atol=1e-5)


def test_logit_of_black_and_white_as_published():
    """v = 0 and v = 255 of 256, squeezed into [0.05, 1)."""
    y = PixelFlow("logit").unconstrained(torch.tensor([0.0, 255.0]))
    expected = torch.tensor([0.05, 0.05 + 0.95 * 255 / 256]).logit()
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4)
