"""A predictor of attributes that is trained on a model's training images and stored in the model's folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor
from torch.nn import functional as F

from cfgen import losses
from cfgen.attributes import Categorical, Continuous, Schema
from cfgen.checkpoints import class_path
from cfgen.contracts import ImageData, ReadsAttributes
from cfgen.counterfactual import as_unit_float
from cfgen.effects import Array
from cfgen.io.checksums import require_whole_checkpoint
from cfgen.io.writing import write_atomically
from cfgen.processes import Processes
from cfgen.progress import Progress, reported
from cfgen.runs.data import results_folder
from cfgen.runs.model import TrainedModel
from cfgen.runs.provenance import data_fingerprint
from lightning_modules import Predictor

__all__ = ["FILE", "FOLDER", "OwnPredictor", "Recipe", "accuracies", "own_predictor"]

FOLDER, FILE = "predictor", "best.ckpt"  # as in a run, so that `--predictor FOLDER` works
BATCH_SIZE = 500  # of reading


@dataclass(frozen=True)
class Recipe:
    """Training options.  There are `steps` steps, or fewer, so that no image is seen more than `epochs` times."""

    width: float = 0.25
    steps: int = 1200
    epochs: int = 20
    batch_size: int = 32
    lr: float = 2e-3
    seed: int = 0
    version: int = 1  # of `train`; part of the fingerprint, so another version trains again


# by image height; on one core 35 s for digits and 130 s for faces, with validation scores of 0.96 or more (correlation) and 0.99
# or more (balanced accuracy)
RECIPES = {28: Recipe(steps=3600), 64: Recipe()}


@dataclass(frozen=True)
class OwnPredictor:
    """A predictor with its validation scores and its file.

    Attributes:
        accuracy: by attribute: balanced accuracy, or the correlation of a continuous one; NaN where the images do not vary.
        path: the checkpoint; None where none can be written.
        trained: whether it was trained by this call.
    """

    predictor: Predictor
    accuracy: dict[str, float]
    path: Path | None
    trained: bool


def own_predictor(
    model: TrainedModel, data: ImageData, *, processes: Processes | None = None, progress: Progress = False
) -> OwnPredictor:
    """The predictor in the model's folder; if there is none for this data, one is trained, which takes minutes.

    It is trained on the training split alone, by the first process.  The state of torch's random numbers stays as it is.
    """
    recipe = RECIPES.get(data.image_shape[1], Recipe())
    with torch.inference_mode(False), torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        predictor = Predictor(data.scm_spec, data.image_shape, recipe.width).eval()
    predictor.schema.fit_ranges(data.columns("train"))
    if processes is None:
        return _load_or_train(predictor, model, data, recipe, progress)
    processes.launch()
    predictor.to(processes.device)
    own = _load_or_train(predictor, model, data, recipe, progress) if processes.first else None
    return _broadcast(own, predictor, processes)


def _load_or_train(
    predictor: Predictor, model: TrainedModel, data: ImageData, recipe: Recipe, progress: Progress
) -> OwnPredictor:
    facts = {"images": data_fingerprint(data.images("train"), data.columns("train")),
             "attributes": predictor.schema.spec, "recipe": asdict(recipe)}  # fmt: skip
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    path = None if model.source is None else results_folder(model.source) / FOLDER / FILE
    if path is not None and (own := _load(predictor, path, key)):
        return own
    with contextlib.ExitStack() as stack:
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                stack.enter_context(FileLock(path.with_name(f".{path.name}.lock")))
            except (OSError, NotImplementedError):  # no file can be written or locked there
                path = None
        if path is not None and (own := _load(predictor, path, key)):  # the previous owner of the lock trained it
            return own
        steps = min(recipe.steps, math.ceil(recipe.epochs * len(data.images("train")) / recipe.batch_size))
        advance = stack.enter_context(reported(progress, "training a predictor of the attributes", steps, "steps"))
        train(predictor, data, recipe, steps, advance)
        own = OwnPredictor(predictor, accuracies(predictor, data), path, trained=True)
        return own if path is None else _save(own, path, key)


def _load(predictor: Predictor, path: Path, key: str) -> OwnPredictor | None:
    """`predictor` with the weights of a file; None if the file has another fingerprint or cannot be read."""
    try:
        require_whole_checkpoint(path)
        contents = torch.load(path, map_location="cpu", weights_only=True)
        if contents["fingerprint"] != key:
            return None
        accuracy = {name: float(contents["accuracy"][name]) for name in predictor.schema.names}
        predictor.load_state_dict(contents["state_dict"])
    except Exception:  # a missing, incomplete or foreign file fails in many ways; the predictor is then trained again
        return None
    return OwnPredictor(predictor, accuracy, path, trained=False)


def _save(own: OwnPredictor, path: Path, key: str) -> OwnPredictor:
    """Writes a checkpoint that `--predictor` accepts too."""
    module = own.predictor
    state = {name: value.cpu() for name, value in module.state_dict().items()}
    contents = {"class_path": class_path(module), "hyper_parameters": dict(module.hparams), "state_dict": state,
                "fingerprint": key, "accuracy": own.accuracy}  # fmt: skip
    try:
        write_atomically(path, lambda file: torch.save(contents, file))
    except OSError:
        return replace(own, path=None)
    return own


def _broadcast(own: OwnPredictor | None, predictor: Predictor, processes: Processes) -> OwnPredictor:
    """The first process's predictor on every process.  Other processes contribute zeros to each sum, and wait in it."""
    state, names = predictor.state_dict(), predictor.schema.names
    weights = {name: processes.sum(value if own else torch.zeros_like(value)) for name, value in state.items()}
    numbers = [*(own.accuracy[name] for name in names), float(own.trained)] if own else [0.0] * (len(names) + 1)
    *accuracy, trained = processes.sum(torch.tensor(numbers, dtype=torch.float64)).tolist()
    if own:
        return own
    predictor.load_state_dict(weights)
    return OwnPredictor(predictor, dict(zip(names, accuracy, strict=True)), None, bool(trained))


def train(predictor: Predictor, data: ImageData, recipe: Recipe, steps: int, advance: Callable[[int], None]) -> None:
    """Trains on the training split with AdamW, a one-cycle learning rate and augmented images."""
    x, device = data.images("train"), predictor.device
    a = predictor.schema.encode({name: column.to(device) for name, column in data.columns("train").items()})
    offset = prior_logits(a, predictor.schema)
    optimiser = torch.optim.AdamW(predictor.parameters(), recipe.lr, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, recipe.lr, total_steps=max(steps, 2), pct_start=0.1)
    devices = [device] if device.type == "cuda" else []
    with torch.inference_mode(False), torch.enable_grad(), torch.random.fork_rng(devices):
        torch.manual_seed(recipe.seed)
        order = torch.empty(0, dtype=torch.long)
        predictor.train()
        for _ in range(steps):
            if len(order) < recipe.batch_size:
                order = torch.cat([order, torch.randperm(len(x))])
            rows, order = order[: recipe.batch_size], order[recipe.batch_size :]
            images = augment(as_unit_float(x[rows].to(device)))
            loss = losses.attributes(predictor(images) + offset, a[rows.to(device)], predictor.schema)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            advance(1)
        predictor.eval()


def prior_logits(a: Tensor, schema: Schema) -> Tensor:
    """The logit of each value's frequency; 0 for continuous attributes.

    Training adds it to the outputs, which then do not depend on the frequency (logit adjustment, Menon et al., 2021).

    >>> prior_logits(torch.tensor([[1.0], [0.0], [0.0], [0.0]]), Schema({"Hat": {"kind": "binary"}})).exp()  # 1 to 3
    tensor([[0.3333]])
    """
    share = a.mean(dim=0, keepdim=True).clamp(0.5 / len(a), 1 - 0.5 / len(a))
    logits = torch.zeros_like(share)
    for name, attribute in schema.attributes.items():
        part = schema.slices[name]
        if not isinstance(attribute, Continuous):
            logits[:, part] = share[:, part].log() if isinstance(attribute, Categorical) else share[:, part].logit()
    return logits


def augment(x: Tensor) -> Tensor:
    """Shifts images by up to two pixels, and adds slight blur and noise, because generated images have both.

    Brightness, colour, size and orientation stay as they are, because attributes may be about them.
    """
    height, width = x.shape[2:]
    down, right = torch.randint(5, (2,)).tolist()
    x = F.pad(x, (2, 2, 2, 2), mode="replicate")[:, :, down : down + height, right : right + width]
    soft = F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
    x = torch.lerp(x, soft, 0.7 * torch.rand(len(x), 1, 1, 1, device=x.device))
    return x + 0.03 * torch.rand(len(x), 1, 1, 1, device=x.device) * torch.randn_like(x)


def accuracies(predictor: ReadsAttributes, data: ImageData, split: str = "val") -> dict[str, float]:
    """How well a predictor reads each attribute that it has in common with the data (`OwnPredictor.accuracy`)."""
    columns, device = data.columns(split), predictor.schema.low.device
    parts = [predictor.read(as_unit_float(batch.to(device))) for batch in data.images(split).split(BATCH_SIZE)]
    return {
        name: accuracy(
            torch.cat([part[name].cpu() for part in parts]).double().numpy(),
            columns[name].double().cpu().numpy(),
            isinstance(predictor.schema[name], Continuous),
        )
        for name in predictor.schema.names
        if name in columns
    }


def accuracy(read: Array, true: Array, continuous: bool = False) -> float:
    """Balanced accuracy, or the correlation of a continuous attribute.

    >>> accuracy(np.array([1.0, 0, 0, 0]), np.array([1.0, 1, 0, 0]))
    0.75
    """
    values = np.unique(true)
    if len(values) < 2:
        return math.nan
    if continuous:
        return float(np.corrcoef(read, true)[0, 1]) if np.std(read) > 0 else 0.0
    return float(np.mean([(read[true == value] == value).mean() for value in values]))
