"""The classifiers of Appendices G and M: shapes, counts, refusals."""

import pytest
import torch

from cfgen.networks.classifiers import DigitClassifier, FaceClassifier, classifier_for


def parameters(network: torch.nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def test_digit_classifier_is_appendix_g():
    by_hand = (9 * 32 + 32) + (9 * 32 * 64 + 64) + (64 * 12 * 12 * 256 + 256) + (256 * 128 + 128) + (128 * 10 + 10)
    assert parameters(DigitClassifier()) == by_hand
    assert DigitClassifier()(torch.rand(3, 1, 28, 28)).shape == (3, 10)
    assert [m.p for m in DigitClassifier().modules() if isinstance(m, torch.nn.Dropout)] == [0.5, 0.5, 0.5]


def test_face_classifier_is_appendix_m():
    filters, kernels = [3, 64, 128, 256, 256, 512, 512], [2, 7, 5, 7, 4, 1]
    convolutions = sum(k * k * i * o for k, i, o in zip(kernels, filters[:-1], filters[1:], strict=True))
    norms = 2 * sum(filters[1:])
    dense = (512 * 128 + 128) + (128 * 128 + 128) + (128 + 1)
    assert parameters(FaceClassifier()) == convolutions + norms + dense
    assert FaceClassifier()(torch.rand(2, 3, 64, 64)).shape == (2, 1)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 64, 64)])
def test_width_scales_the_convolutions_alone(shape):
    def filters(width: float) -> list[int]:
        network = classifier_for(shape, 1, width)
        assert network(torch.rand(2, *shape)).shape == (2, 1)
        assert [m.out_features for m in network.modules() if isinstance(m, torch.nn.Linear)][1:] == [128, 1]
        return [m.out_channels for m in network.modules() if isinstance(m, torch.nn.Conv2d)]

    assert [4 * narrow for narrow in filters(0.25)] == filters(1.0)
