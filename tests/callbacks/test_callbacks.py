"""When callbacks act, what they seed, and what they refuse."""

from types import SimpleNamespace

import pytest
import torch

from callbacks import EpochSeed, ImageGrids, MedianAbsError
from callbacks.every_n_epochs import EveryNEpochs
from tests.fakes import Painted


class Recorder(EveryNEpochs):
    def __init__(self, every_n_epochs: int) -> None:
        super().__init__(every_n_epochs)
        self.epochs: list[int] = []

    def act(self, trainer, pl_module):
        self.epochs.append(trainer.current_epoch)


def validations(recorder, epochs, sanity_checking=False):
    for epoch in epochs:
        recorder.on_validation_epoch_end(SimpleNamespace(current_epoch=epoch, sanity_checking=sanity_checking), None)


def test_acts_at_the_first_validation_and_then_at_its_distance():
    recorder = Recorder(3)
    validations(recorder, [0], sanity_checking=True)
    assert recorder.epochs == []
    validations(recorder, range(1, 9))
    assert recorder.epochs == [1, 4, 7]
    resumed = Recorder(3)
    resumed.load_state_dict(recorder.state_dict())
    validations(resumed, range(9, 12))
    assert resumed.epochs == [10]


def test_nonsense_distances_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        MedianAbsError(every_n_epochs=0)


def test_seeds_depend_on_seed_epoch_and_process_alone():
    def drawn(seed: int, epoch: int, rank: int) -> float:
        torch.rand(seed + epoch + 3 * rank)  # whatever was drawn before
        EpochSeed(seed).on_train_batch_start(SimpleNamespace(current_epoch=epoch, global_rank=rank), None, None, 0)
        return torch.rand(1).item()

    assert drawn(0, 1, 0) == drawn(0, 1, 0)
    assert len({drawn(*case) for case in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]}) == 4


def test_later_batches_of_an_epoch_go_on_drawing():
    trainer = SimpleNamespace(current_epoch=0, global_rank=0)
    callback = EpochSeed(0)
    callback.on_train_batch_start(trainer, None, None, 0)
    first = torch.rand(1)
    callback.on_train_batch_start(trainer, None, None, 1)
    assert torch.rand(1) != first


def test_grids_check_their_interventions():
    data = Painted({"label": {"kind": "categorical", "values": [0, 1]}, "t": {"kind": "continuous"}})
    ImageGrids({"label": [1]}, {"t": [99]}).check(data)  # continuous values are moved into the range
    with pytest.raises(ValueError, match="unknown value '7'"):
        ImageGrids({"label": [7]}, {}).check(data)
    with pytest.raises(ValueError, match="unknown attribute 'lable'"):
        ImageGrids({"lable": [1]}, {}).check(data)
