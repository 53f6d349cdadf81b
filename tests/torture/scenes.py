"""The commands that are tortured: small models and data to start from, what each command is to leave behind, and how one goes on."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from PIL import Image

from lightning_modules import Classifier, CondALI, Predictor
from tests.fakes import Painted, finished, fitted

__all__ = ["SCENES", "Outcome", "Scene", "leftovers", "prepare"]

Outcome = dict[str, str]
"""What a command left, by name: a digest of what matters of each result; empty where there is none."""

ROWS, EPOCHS = 60, 3
DATA = {"class_path": "tests.torture.scenes.Shared", "init_args": {"rows": ROWS, "batch_size": 30}}
CONFIG: dict[str, Any] = {
    "name": "it",
    "model": {"class_path": "lightning_modules.CondALI", "init_args": {"width": 0.02, "latent_dim": 4}},
    "data": DATA,
    "trainer": {
        "max_epochs": EPOCHS, "accelerator": "cpu", "enable_progress_bar": False, "enable_model_summary": False,
        "num_sanity_val_steps": 0, "log_every_n_steps": 1,
    },
}  # fmt: skip
FIT = ["fit", "--config", "it.yaml"]
GO_ON = [*FIT, "--ckpt_path", "last"]
STUDY = ["study", "new", "exported", "--do", "Bangs=1", "--split", "test", "--each", "4", "--count", "8", "--out"]
TEMPORARY = re.compile(r"\.(part|tmp|partial)$")
VOLATILE = ("seconds", "command", "options", "versions", "git_commit")  # of JSON: no part of the result


class Shared(Painted):
    """May be passed on: its images can be examples on a page."""

    def shareable(self) -> Shared:
        return self


@dataclass(frozen=True)
class Scene:
    """A command, what it starts from and what it leaves.

    `outcome` looks at the folder and at what was printed.  `again` are the words that go on after an interruption, by what is
    there.  `damageable` are files that the command reads and whose damage has to be noticed, `cache` is a folder with some of them
    that it makes itself.
    """

    name: str
    words: Sequence[str]
    outcome: Callable[[Path, str], Outcome]
    damageable: Sequence[str]
    again: Callable[[Path], Sequence[str]] | None = None
    needs: Sequence[str] = ()
    rewrites: Sequence[str] = ()
    cache: str | None = None
    writes: bool = True

    def going_on(self, folder: Path) -> Sequence[str]:
        return self.words if self.again is None else self.again(folder)


def digest_of(path: Path) -> str:
    """What matters of a result's file: numbers, weights and pixels, not when it was made."""
    if path.suffix == ".ckpt":
        contents = torch.load(path, weights_only=True, map_location="cpu")
        state = hashlib.sha256()
        for name, value in sorted(contents["state_dict"].items()):
            state.update(name.encode() + value.numpy().tobytes())
        return f"{contents.get('epoch')} {contents.get('global_step')} {state.hexdigest()}"
    data = path.read_bytes()
    if path.suffix == ".json":
        data = json.dumps(without(json.loads(data))).encode()
    elif path.suffix == ".png":
        with Image.open(io.BytesIO(data)) as image:
            data = image.tobytes()
    elif path.suffix in (".html", ".md"):  # have the date and the command in them, and inlined figures
        data = b"there" if data.rstrip() else b""
    return hashlib.sha256(data).hexdigest()


def without(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: without(value) for key, value in tree.items() if key not in VOLATILE}
    return [without(value) for value in tree] if isinstance(tree, list) else tree


def files_in(*places: str) -> Callable[[Path, str], Outcome]:
    """Digests of all files in folders, and of single files; hidden ones are no results."""

    def outcome(folder: Path, _: str) -> Outcome:
        found = {}
        for place in places:
            root = folder / place
            paths = sorted(root.rglob("*")) if root.is_dir() else [root]
            for path in paths:
                if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
                    name = str(path.relative_to(folder))
                    found[name] = "" if path.name == "SHA256SUMS" else digest_of(path)
        return found

    return outcome


def trained(name: str, *files: str) -> Callable[[Path, str], Outcome]:
    """These files of the newest run that has them all and is finished."""

    def outcome(folder: Path, _: str) -> Outcome:
        runs = sorted(path.parent for path in (folder / "runs" / name).glob("*/finished.json"))
        whole = [run for run in runs if all((run / file).is_file() for file in files)]
        return {file: digest_of(whole[-1] / file) for file in files} if whole else {}

    return outcome


def go_on_training(folder: Path) -> Sequence[str]:
    """A run that was interrupted goes on; one that has no checkpoint starts anew."""
    runs = sorted((folder / "runs" / "it").glob("[0-9]*"), reverse=True)
    return GO_ON if any((run / "last.ckpt").is_file() for run in runs) else FIT


def printed(folder: Path, out: str) -> Outcome:
    return {"printed": out} if "checked" in out else {}


WEIGHTS = trained("it", "last.ckpt", "best.ckpt")
SCENES = [
    Scene("fit", FIT, WEIGHTS, [], go_on_training, rewrites=["runs/**"]),
    Scene("fit, resumed", GO_ON, WEIGHTS, ["runs/it/001/last.ckpt"], needs=["runs"], rewrites=["runs/**"]),
    Scene(
        "quickstart",
        ["quickstart", "--model.width=0.05", "--model.latent_dim=4", "--data.limit=100", "--trainer.max_epochs=1",
         "--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false"],
        trained("quickstart", "last.ckpt", "counterfactuals.png", "target_against_measured.png"),
        [".cache/cfgen/*.npz"],
        rewrites=["runs/**"],
        cache=".cache",
    ),
    Scene(
        "generate",
        ["generate", "exported", "--do", "Bangs=1", "--out", "made"],
        files_in("made"),
        ["exported/*"],
    ),
    Scene(
        "evaluate",
        ["evaluate", "model", "--metrics", "cycles,reversibility", "--predictor", "none", "--accelerator", "cpu"],
        files_in("model/001/metrics.json", "model/001/metrics.csv"),
        ["model/001/last.ckpt"],
        rewrites=["model/001/metrics*"],
    ),
    Scene(
        "audit",
        ["audit", "--model", "exported", "--classifier", "classifier", "--predictor", "none", "--do", "Bangs=1", "--explain", "none", "--label", "yes",
         "--out", "audited", "--accelerator", "cpu"],
        files_in("audited"),
        ["exported/model.*", "exported/config.yaml", "classifier/001/last.ckpt"],
    ),
    Scene(
        "calibrate",
        ["calibrate", "model", "--predictor", "predictor", "--accelerator", "cpu"],
        files_in("model/001/calibration.json"),
        ["model/001/last.ckpt", "predictor/001/last.ckpt"],
    ),
    Scene("export", ["export", "model", "given", "--examples", "4"], files_in("given"), ["model/001/last.ckpt"]),
    Scene("export --page", ["export", "model", "--page", "site", "--examples", "2"], files_in("site"), ["model/001/last.ckpt"]),
    Scene("verify", ["verify", "exported"], printed, ["exported/*"], writes=False),
    Scene("study new", [*STUDY, "made"], files_in("made"), ["exported/model.*", "exported/config.yaml"]),
    Scene(
        "study analyse",
        ["study", "analyse", "study", "--simulate", "guessing=9", "--power", "9", "--out", "analysed"],
        files_in("analysed"),
        ["study/study.json"],
    ),
    Scene(
        "data",
        ["data", "morpho_mnist", "--limit", "100", "--cache_dir", "prepared", "--out", "sheet.png"],
        files_in("prepared", "sheet.png"),
        ["prepared/*.npz"],
        cache="prepared",
    ),
]  # fmt: skip


def prepare(folder: Path) -> None:
    """The template that every try starts from a copy of; called in a process that may train."""
    folder.mkdir(parents=True)
    torch.manual_seed(0)
    data = Painted(rows=ROWS)
    model = fitted(CondALI, data, width=0.02, latent_dim=4)
    run = {"name": "model", "data": DATA, "model": CONFIG["model"], "trainer": {"max_epochs": 1}}
    finished(model, folder / "model" / "001", run)
    finished(Classifier(data.image_shape, 2, width=0.05), folder / "classifier" / "001", run)
    predictor = Predictor(data.scm_spec, data.image_shape, width=0.05)
    predictor.schema.fit_ranges(data.train_columns)
    finished(predictor, folder / "predictor" / "001", run)
    (folder / "it.yaml").write_text(yaml.safe_dump(CONFIG))


def interrupted(folder: Path) -> None:
    """Makes of a run of one epoch one that was interrupted after it."""
    run = folder / "runs" / "it" / "001"
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["trainer"]["max_epochs"] = EPOCHS
    (run / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    (run / "finished.json").unlink()


def copied(template: Path, scene: Scene, folder: Path) -> None:
    """The template in a folder that exists, without what the scene has to make itself."""
    for path in template.iterdir():
        if path.name == "runs" and "runs" not in scene.needs:
            continue
        if path.is_dir():
            shutil.copytree(path, folder / path.name)
        else:
            shutil.copy2(path, folder / path.name)


def leftovers(folder: Path) -> list[str]:
    """Files that a writer should have removed."""
    return [str(path.relative_to(folder)) for path in folder.rglob(".*") if TEMPORARY.search(path.name)]
