"""HVAE beside CondALI at equal quality: how long each trains until its digits are equally good, and how fast it is then.

    OMP_NUM_THREADS=1 python -m benchmarks.equal_quality --epochs 20

CondALI (the recipe that `make quickstart` had before) is trained on the embedded digits for so many epochs; what it reaches on
validation digits (`val/median_abs_error/relative`: the error under do(), where 1 does nothing) is what HVAE (`make quickstart`'s
recipe) has to reach.  Times are CPU time of all threads without validation, which other programs on the machine disturb little.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import pytorch_lightning as pl
import torch
import yaml

from benchmarks.mechanisms import seconds
from callbacks import MedianAbsError
from cfgen.training.configs import find_config
from datamodules import MorphoMNIST
from lightning_modules import HVAE, CondALI

QUALITY = "val/median_abs_error/relative"
CONDALI = {"width": 0.25, "latent_dim": 64, "lr": 2.0e-3, "lr_decay": True}
ASKED = 250  # images at a time, as `sweep` has them


class Reached(pl.Callback):
    """CPU seconds of training until the quality is reached; stops there."""

    def __init__(self, target: float) -> None:
        self.target, self.seconds, self.start = target, 0.0, 0.0
        self.quality = float("inf")

    def on_train_epoch_start(self, *_: Any) -> None:
        self.start = time.process_time()

    def on_train_epoch_end(self, trainer: pl.Trainer, _: pl.LightningModule) -> None:
        if trainer.callback_metrics.get(QUALITY) is not None:
            self.quality = trainer.callback_metrics[QUALITY].item()
            trainer.should_stop = self.quality <= self.target

    def on_validation_start(self, *_: Any) -> None:  # it stands between the batches and the end of the epoch
        self.seconds += time.process_time() - self.start


def trained(model: Any, data: Any, epochs: int, target: float) -> Reached:
    reached = Reached(target)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        callbacks=[MedianAbsError(), reached],
    )
    trainer.fit(model, datamodule=data)
    return reached


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20, help="of CondALI; HVAE has as many at the most")
    epochs = parser.parse_args().epochs
    data = MorphoMNIST(source="embedded", batch_size=64)
    data.prepare_data()
    data.setup("fit")
    options = yaml.safe_load(find_config("quickstart").read_text(encoding="utf-8"))["model"]["init_args"]
    models = {"CondALI": lambda: CondALI(data.scm_spec, data.image_shape, **CONDALI)}
    models["HVAE"] = lambda: HVAE(data.scm_spec, data.image_shape, **options)
    x = data.images("val")[:ASKED].float() / 255
    a = data.schema.encode({name: column[:ASKED] for name, column in data.columns("val").items()})
    found, target = {}, 0.0
    for name, build in models.items():
        pl.seed_everything(0, verbose=False)
        model: Any = build()
        run = trained(model, data, epochs, target)
        target = run.quality if name == "CondALI" else target
        model.eval()
        with torch.inference_mode():
            z = model.abduct(x, a)
        abduct = seconds(lambda model=model: model.abduct(x, a), 5)  # type: ignore[misc]
        decode = seconds(lambda model=model, z=z: model.decode(z, a.flip(0)), 5)  # type: ignore[misc]
        found[name] = run, abduct, decode
    print(
        f"{'':10}{'error':>10}{'trained for':>14}{'abduct 250':>14}{'decode 250':>14}{'counterfactuals a second':>28}"
    )
    for name, (run, abduct, decode) in found.items():
        times = f"{run.seconds:12.0f} s{1000 * abduct:11.0f} ms{1000 * decode:11.0f} ms"
        print(f"{name:10}{run.quality:10.3f}{times}{ASKED / (abduct + decode):28.0f}")
    (ali, ali_abduct, ali_decode), (hvae, abduct, decode) = found.values()
    ratios = (hvae.seconds / ali.seconds, abduct / ali_abduct, decode / ali_decode)
    print("HVAE takes, times: " + ", ".join(f"{ratio:.2f}" for ratio in ratios) + " (training, abduct, decode)")


if __name__ == "__main__":
    main()
