"""The laws of the moving average."""

import pickle

import torch
from torch import nn

from cfgen.networks import moving_average


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))


def test_a_network_that_stands_still_is_its_own_average():
    net = network()
    average = moving_average(net, 0.9)
    for _ in range(5):
        average.update_parameters(net)
    for name, value in net.state_dict().items():
        torch.testing.assert_close(average.module.state_dict()[name], value)


def test_average_is_the_weighted_sum_of_its_history():
    net = network()
    average = moving_average(net, 0.5)
    average.update_parameters(net)  # the first is taken as it is
    expected = net[0].weight.detach().clone()
    for t in range(1, 6):
        with torch.no_grad():
            net[0].weight.normal_()
        average.update_parameters(net)
        decay = min(0.5, (1 + t) / (10 + t))
        expected = decay * expected + (1 - decay) * net[0].weight.detach()
    torch.testing.assert_close(average.module[0].weight, expected)


def test_batch_norm_statistics_are_averaged_and_counts_copied():
    net = network()
    average = moving_average(net, 0.9)
    average.update_parameters(net)
    net(torch.randn(16, 3) + 5)
    average.update_parameters(net)
    mean, start = net[1].running_mean, torch.zeros(4)
    torch.testing.assert_close(average.module[1].running_mean, torch.lerp(start, mean, 1 - 2 / 11))
    assert average.module[1].num_batches_tracked == 1


def test_average_takes_no_gradient_and_can_be_sent_to_another_process():
    average = moving_average(network(), 0.9)
    assert not any(parameter.requires_grad for parameter in average.parameters())
    again = pickle.loads(pickle.dumps(average))
    again.update_parameters(network())
    assert again.n_averaged == 1
