"""The two baselines of the bias table."""

import pytest
import torch

from cfgen.audit._transformations import brighten, horizontal_flip

X = torch.rand(3, 3, 8, 6, generator=torch.Generator().manual_seed(0))


def test_a_flip_mirrors_columns_and_undoes_itself():
    assert torch.equal(horizontal_flip(X)[..., 0], X[..., -1])
    assert torch.equal(horizontal_flip(horizontal_flip(X)), X)


def test_brightening_scales_stays_in_range_and_leaves_its_input():
    before = X.clone()
    brighter = brighten(X, 1.5)
    assert torch.equal(X, before)
    assert brighter.max() <= 1
    torch.testing.assert_close(brighter[X < 0.6], 1.5 * X[X < 0.6])
    assert (brighter >= X).all()
    assert torch.equal(brighten(X, 1), X)
    with pytest.raises(ValueError, match="darkens"):
        brighten(X, 0.5)
