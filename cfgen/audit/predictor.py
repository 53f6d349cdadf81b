"""A predictor that is trained on the spot, on the real images of a model's data, kept beside the model, and itself judged."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

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
from cfgen.processes import Processes
from cfgen.progress import Progress, reported
from cfgen.reporting.provenance import data_fingerprint
from cfgen.runs.data import results_folder
from cfgen.runs.model import TrainedModel
from cfgen.io.checksums import require_whole_checkpoint
from cfgen.io.writing import write_atomically
from lightning_modules import Predictor

__all__ = ["OwnPredictor", "Recipe", "accuracies", "own_predictor"]

FOLDER, FILE = "predictor", "best.ckpt"  # as a run has it, so that `--predictor FOLDER` works
AT_ONCE = 500  # images read


@dataclass(frozen=True)
class Recipe:
    """How a predictor is trained: Adam with a rate that falls along a cosine, on slightly changed images.

    There are `steps` of `batch_size` images, fewer where an image would be seen more than `epochs` times.
    """

    width: float = 0.25
    steps: int = 1200
    epochs: int = 20
    batch_size: int = 32
    lr: float = 2e-3
    seed: int = 0
    version: int = 1  # of the code below: what another one has trained is not used


# by the height of images; 35 seconds for digits and 130 for faces on one core, where validation images are read with a
# correlation of 0.96 or more, and with a balanced accuracy of 0.99 or more
RECIPES = {28: Recipe(steps=3600), 64: Recipe()}


@dataclass(frozen=True)
class OwnPredictor:
    """A predictor, how well it reads validation images, its file (None where none can be written), and whether it was trained
    just now.

    `accuracy` is the balanced accuracy of a binary or categorical attribute (of the images with a value, the share that is read
    so, averaged over values), and the correlation of a continuous one; NaN where validation images do not vary.
    """

    predictor: Predictor
    accuracy: dict[str, float]
    path: Path | None
    trained: bool


def own_predictor(
    model: TrainedModel, data: ImageData, *, processes: Processes | None = None, progress: Progress = False
) -> OwnPredictor:
    """The predictor beside a model, if it was trained on this data; otherwise one is trained now, in minutes.

    Sees the training split alone.  Prints nothing, and leaves torch's random numbers as they are.  With several processes the
    first one trains.
    """
    recipe = RECIPES.get(data.image_shape[1], Recipe())
    with torch.inference_mode(False), torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        predictor = Predictor(data.scm_spec, data.image_shape, recipe.width).eval()
    predictor.schema.fit_ranges(data.columns("train"))
    if processes is None:
        return kept_or_trained(predictor, model, data, recipe, progress)
    processes.launch()
    predictor.to(processes.device)
    own = None
    if processes.first:
        own = kept_or_trained(predictor, model, data, recipe, progress)
    return shared(own, predictor, processes)


def kept_or_trained(
    predictor: Predictor, model: TrainedModel, data: ImageData, recipe: Recipe, progress: Progress
) -> OwnPredictor:
    """`predictor` with the weights that are kept beside the model, or with weights that are trained and kept now."""
    key = fingerprint_of(predictor, data, recipe)
    path = None if model.source is None else results_folder(model.source) / FOLDER / FILE
    if path is not None and (own := kept(predictor, path, key)):
        return own
    with contextlib.ExitStack() as stack:
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                stack.enter_context(FileLock(path.with_name(f".{path.name}.lock")))
            except (OSError, NotImplementedError):  # nothing can be written or locked there: trained, and not kept
                path = None
        if path is not None and (own := kept(predictor, path, key)):  # whoever held the lock has just trained it
            return own
        steps = steps_of(recipe, len(data.images("train")))
        advance = stack.enter_context(reported(progress, "training a predictor of the attributes", steps, "steps"))
        train(predictor, data, recipe, steps, advance)
        own = OwnPredictor(predictor, accuracies(predictor, data), path, trained=True)
        return own if path is None else keep(own, path, key)


def fingerprint_of(predictor: Predictor, data: ImageData, recipe: Recipe) -> str:
    """Of all that a predictor depends on."""
    images = data_fingerprint(data.images("train"), data.columns("train"))
    facts = {"images": images, "attributes": predictor.schema.spec, "recipe": asdict(recipe)}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def kept(predictor: Predictor, path: Path, key: str) -> OwnPredictor | None:
    """`predictor` with the weights in a file, if they are of the same data and recipe."""
    try:
        require_whole_checkpoint(path)
        contents = torch.load(path, map_location="cpu", weights_only=True)
        if contents["fingerprint"] != key:
            return None
        accuracy = {name: float(contents["accuracy"][name]) for name in predictor.schema.names}
        predictor.load_state_dict(contents["state_dict"])
    except Exception:  # whatever a missing, torn or foreign file makes of itself: it is trained again
        return None
    return OwnPredictor(predictor, accuracy, path, trained=False)


def keep(own: OwnPredictor, path: Path, key: str) -> OwnPredictor:
    """Writes it as a checkpoint, which `--predictor` takes too."""
    module = own.predictor
    state = {name: value.cpu() for name, value in module.state_dict().items()}
    contents = {"class_path": class_path(module), "hyper_parameters": dict(module.hparams), "state_dict": state}
    contents |= {"fingerprint": key, "accuracy": own.accuracy}
    try:
        write_atomically(path, lambda file: torch.save(contents, file))
    except OSError:
        return replace(own, path=None)
    return own


def shared(own: OwnPredictor | None, predictor: Predictor, processes: Processes) -> OwnPredictor:
    """The first process's predictor, on each of them; the others give 0 to each sum, and wait there while it is trained."""
    state = predictor.state_dict()
    weights = {name: processes.sum(value if own else torch.zeros_like(value)) for name, value in state.items()}
    names = predictor.schema.names
    numbers = [own.accuracy[name] for name in names] + [float(own.trained)] if own else [0.0] * (len(names) + 1)
    *accuracy, trained = processes.sum(torch.tensor(numbers, dtype=torch.float64)).tolist()
    if own:
        return own
    predictor.load_state_dict(weights)
    return OwnPredictor(predictor, dict(zip(names, accuracy, strict=True)), None, bool(trained))


def steps_of(recipe: Recipe, images: int) -> int:
    return min(recipe.steps, math.ceil(recipe.epochs * images / recipe.batch_size))


def train(predictor: Predictor, data: ImageData, recipe: Recipe, steps: int, advance: Callable[[int], None]) -> None:
    """Trains it on the training split, `steps` steps from the weights it has."""
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
            images = augmented(as_unit_float(x[rows].to(device)))
            loss = losses.attributes(predictor(images) + offset, a[rows.to(device)], predictor.schema)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            advance(1)
        predictor.eval()


def prior_logits(a: Tensor, schema: Schema) -> Tensor:
    """How frequent each value is, as logits; 0 for continuous attributes.

    Training adds them to the outputs, so that these leave the frequency out (logit adjustment, Menon et al., 2021): a rare
    attribute is seen as often where it is as a frequent one, and a predictor that knows nothing says yes to half of the images.

    >>> prior_logits(torch.tensor([[1.0], [0.0], [0.0], [0.0]]), Schema({"Hat": {"kind": "binary"}})).exp()  # 1 to 3
    tensor([[0.3333]])
    """
    share = a.mean(dim=0, keepdim=True).clamp(0.5 / len(a), 1 - 0.5 / len(a))
    logits = torch.zeros_like(share)
    for name, attribute in schema.attributes.items():
        part = schema.slices[name]
        if isinstance(attribute, Categorical):
            logits[:, part] = share[:, part].log()
        elif not isinstance(attribute, Continuous):
            logits[:, part] = share[:, part].logit()
    return logits


def augmented(x: Tensor) -> Tensor:
    """Images moved by up to two pixels, a little blurred and with a little noise, as a generator may draw them.

    Nothing that an attribute may be about: no brightness, colour or size, and no mirroring.
    """
    height, width = x.shape[2:]
    down, right = torch.randint(5, (2,)).tolist()
    x = F.pad(x, (2, 2, 2, 2), mode="replicate")[:, :, down : down + height, right : right + width]
    soft = F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
    x = torch.lerp(x, soft, 0.7 * torch.rand(len(x), 1, 1, 1, device=x.device))
    return x + 0.03 * torch.rand(len(x), 1, 1, 1, device=x.device) * torch.randn_like(x)


def accuracies(predictor: ReadsAttributes, data: ImageData, split: str = "val") -> dict[str, float]:
    """Of each attribute that a predictor reads and the data has, as in `OwnPredictor`."""
    columns = data.columns(split)
    read = read_all(predictor, data.images(split))
    return {
        name: accuracy(read[name].double().numpy(), columns[name].double().cpu().numpy(), predictor.schema, name)
        for name in predictor.schema.names
        if name in columns
    }


def read_all(predictor: ReadsAttributes, x: Tensor) -> dict[str, Tensor]:
    """The attributes of many images, on the CPU."""
    device = predictor.schema.low.device
    parts = [predictor.read(as_unit_float(batch.to(device))) for batch in x.split(AT_ONCE)]
    return {name: torch.cat([part[name].cpu() for part in parts]) for name in parts[0]}


def accuracy(read: Any, true: Any, schema: Schema, name: str) -> float:
    """Balanced accuracy, or the correlation of a continuous attribute.

    >>> accuracy(np.array([1, 0, 0, 0]), np.array([1, 1, 0, 0]), Schema({"Hat": {"kind": "binary"}}), "Hat")
    0.75
    """
    values = np.unique(true)
    if len(values) < 2:
        return math.nan
    if isinstance(schema[name], Continuous):
        return float(np.corrcoef(read, true)[0, 1]) if np.std(read) > 0 else 0.0
    return float(np.mean([(read[true == value] == value).mean() for value in values]))
