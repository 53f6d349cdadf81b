"""The parsers of the files of models and classifiers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st

from cfgen.audit.report._page import scores_of
from cfgen.audit.strength import calibrated_strength
from cfgen.checkpoints import CARD, CONFIG, EXAMPLES, PACKAGED, WEIGHTS
from cfgen.classifiers import YesProbability, load_network
from cfgen.io.checksums import CHECKSUMS, listed_checksums, require_unchanged
from cfgen.io.files import read_json
from cfgen.runs.calibration import read_calibration
from cfgen.runs.card import CALIBRATION, require_calibration, score_table
from cfgen.runs.data import run_data
from cfgen.runs.examples import read_examples
from cfgen.runs.export import SCORES, found_in
from cfgen.runs.model import TrainedModel, load_trained
from cfgen.runs.verification import verify
from cfgen.training.options import check_options
from tests.torture.material import Material
from tests.torture.mutations import damaged, damaged_tree, dumped
from tests.torture.parser import Parser, of_file, of_text, of_tree

__all__ = ["OF_MODELS"]


def file(name: str) -> Callable[[Material], bytes]:
    """A file of the exported model."""
    return lambda material: material.file(name)


def run_config(material: Material, content: bytes) -> None:
    folder = material.copied_export(CONFIG, content)
    run_data(folder)


def fit_config(material: Material, content: bytes) -> None:
    path = material.put("mine.yaml", content)
    check_options(["--config", str(path), "--trainer.max_epochs=1", "--data.batch_size=2", "--model.width=1"])


def loaded(name: str) -> Callable[[Material, bytes], None]:
    def take(material: Material, content: bytes) -> None:
        model = load_trained(material.copied_export(name, content))
        x = torch.zeros(1, *model.module.image_shape)
        a = {
            key: attribute.values[0] if hasattr(attribute, "values") else 0
            for key, attribute in model.schema.attributes.items()
        }
        do = {key: value for key, value in a.items() if key not in model.schema.continuous}
        made = model.counterfactual(x, a, do)
        assert made.images.isfinite().all() or name == WEIGHTS  # weights that are finite may still be far too large

    return take


def verified(name: str) -> Callable[[Material, bytes], None]:
    def take(material: Material, content: bytes) -> None:
        verify(material.copied_export(name, content)).to_dict()

    return take


def scores(material: Material, content: bytes) -> None:
    found = found_in(material.put(SCORES, content))
    if found is not None:
        score_table(found)
        scores_of(found, {"thickness"})


def calibration(material: Material, content: bytes) -> None:
    """As an audit reads it, and as an export puts it on a card."""
    folder = material.scratch / "calibrated"
    if not folder.exists():
        folder.mkdir()
        shutil.copy(PACKAGED / "morphomnist-csali" / CARD, folder / CARD)
    (folder / CALIBRATION).write_bytes(content)
    model = TrainedModel(material.digits.module, folder, folder)
    found = read_calibration(model)
    if found is not None:
        calibrated_strength(found, model.schema, {"thickness": torch.tensor(3.0)})
        found.to_dict()
    require_calibration(read_json(folder / CALIBRATION), folder / CALIBRATION)


def examples(material: Material, content: bytes) -> None:
    folder = material.copied_export(EXAMPLES, content)
    read_examples(folder, material.digits.schema)


def checkpoint(material: Material, content: bytes | dict[str, Any]) -> None:
    path = material.scratch / "it.ckpt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    load_trained(path)


def checksums(material: Material, content: bytes) -> None:
    folder = material.copied_export(CHECKSUMS, content)
    listed_checksums(folder)
    require_unchanged(folder, (CARD, WEIGHTS))


def onnx(material: Material, content: bytes) -> None:
    network = YesProbability(load_network(material.put("it.onnx", content)))
    network(torch.zeros(2, 1, 28, 28))


def header_of_weights(material: Material) -> st.SearchStrategy[bytes]:
    """The weights with their header, a JSON text of which the first eight bytes are the length, exchanged."""
    whole = material.file(WEIGHTS)
    size = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + size]) | {"__metadata__": {"format": "pt"}}

    def with_header(tree: Any) -> bytes:
        text = dumped(tree)
        return len(text).to_bytes(8, "little") + text + whole[8 + size :]

    return st.one_of(damaged_tree(header).map(with_header), damaged(whole))


def checkpoints(material: Material) -> st.SearchStrategy[Any]:
    contents = material.checkpoint()
    whole = (material.run / "last.ckpt").read_bytes()
    return st.one_of(damaged(whole), damaged_tree(contents).filter(lambda tree: tree is not None))


OF_MODELS: dict[str, Parser] = {
    "config of a run": of_tree(file(CONFIG), run_config),
    "config of fit": of_tree(file(CONFIG), fit_config),
    "model.json": of_tree(file(CARD), loaded(CARD)),
    "cfgen verify": of_tree(file(CARD), verified(CARD)),
    "metrics.json": of_tree(file(SCORES), scores),
    "calibration.json": of_tree(file(CALIBRATION), calibration),
    "SHA256SUMS": of_text(lambda material: material.file(CHECKSUMS).decode(), checksums),
    "model.safetensors": Parser(header_of_weights, loaded(WEIGHTS), lambda material: material.file(WEIGHTS)),
    "examples.safetensors": of_file(lambda material: material.file(EXAMPLES), examples),
    "checkpoint": Parser(checkpoints, checkpoint, Material.checkpoint),
    "ONNX": of_file(Material.onnx, onnx),
}
