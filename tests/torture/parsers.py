"""Every parser of cfgen that is given what somebody typed or what a file holds, with right inputs to damage.

A parser may take an input or refuse it by `UserError`; anything else is a finding.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
import yaml
from hypothesis import strategies as st
from PIL import Image

from cfgen import evaluate, generate
from cfgen.audit.calibration import read_calibration
from cfgen.audit.checks import parse_cohorts, parse_curves, parse_interventions
from cfgen.audit.classifiers.load import load_network
from cfgen.audit.judging import calibrated_strength
from cfgen.audit.pairs import read_pairs
from cfgen.audit.report.quality import scores_of
from cfgen.checkpoints import CARD, CONFIG, EXAMPLES, PACKAGED, WEIGHTS
from cfgen.command_line import parse_assignments
from cfgen.counterfactual import asked_of
from cfgen.errors import UserError
from cfgen.external.classifier import ExternalClassifier
from cfgen.runs.card import CALIBRATION, require_calibration, score_table
from cfgen.runs.data import run_data
from cfgen.runs.examples import read_examples
from cfgen.runs.export import SCORES, export, found_in
from cfgen.runs.model import TrainedModel, load_trained
from cfgen.runs.pictures import frame_of, read_picture
from cfgen.runs.verification import verify
from cfgen.safety.archives import Archive
from cfgen.safety.checksums import CHECKSUMS, listed_checksums, require_unchanged
from cfgen.safety.files import read_json
from cfgen.safety.names import require_folder_name
from cfgen.safety.pictures import decoded_jpeg
from cfgen.training.options import check_options
from datamodules.sources import cache, celeba_files, digits
from datamodules.sources.idx import read_idx
from datamodules.sources.packing import packed
from lightning_modules import CondALI
from tests.datamodules.celeba_folder import make_celeba
from tests.fakes import Noisy, finished, fitted
from tests.torture.mutations import assignments, damaged, damaged_text, damaged_tree, dumped, words

__all__ = ["PARSERS", "Material", "Parser"]

MORPHO = "index,thickness,intensity\n" + "".join(f"{row},{2 + row / 10},{100 + row}\n" for row in range(12))
PIXELS = np.arange(12 * 28 * 28, dtype=np.uint32).astype(np.uint8).reshape(12, 28, 28)


@dataclass(frozen=True)
class Parser:
    """`inputs` are damaged inputs, `take` gives one to the parser, and `right` is one that it has to take."""

    inputs: Callable[[Material], st.SearchStrategy[Any]]
    take: Callable[[Material, Any], object]
    right: Callable[[Material], Any]


class Material:
    """What inputs are made from: small files of each kind that are as they should be, in a folder."""

    formats: ClassVar[dict[str, str]] = {
        "png": "PNG", "jpg": "JPEG", "webp": "WEBP", "bmp": "BMP", "gif": "GIF", "tiff": "TIFF", "ppm": "PPM",
    }  # fmt: skip

    def __init__(self, folder: Path) -> None:
        torch.manual_seed(0)
        self.folder, self.scratch = folder, folder / "scratch"
        self.scratch.mkdir(parents=True)
        self.data = Noisy()
        module = fitted(CondALI, self.data, width=0.05, latent_dim=4)
        config = {"name": "it", "data": {"class_path": "tests.fakes.Noisy", "init_args": {"rows": 12}},
                  "model": {"class_path": "lightning_modules.CondALI", "init_args": {"width": 0.05}}, "trainer": {"max_epochs": 1}}  # fmt: skip
        self.run = finished(module, folder / "run" / "001", config)
        for name in (SCORES, CALIBRATION):
            shutil.copy(PACKAGED / "morphomnist-csali" / name, self.run / name)
        self.model = load_trained(self.run)
        self.export = export(self.model, folder / "export", examples=0).folder
        shutil.copy(PACKAGED / "morphomnist-csali" / EXAMPLES, self.export / EXAMPLES)
        self.digits = load_trained("morphomnist-csali")
        self.x = self.data.images("train")[:2]
        self.given = {"thickness": 2.0, "label": 1}
        self.celeba = folder / "celeba"
        self.celeba.mkdir()
        make_celeba(self.celeba)

    def put(self, name: str, content: bytes) -> Path:
        path = self.scratch / name
        path.write_bytes(content)
        return path

    def copied_export(self, name: str, content: bytes) -> Path:
        """The exported folder with one file exchanged, and without the checksums that would tell."""
        copy = self.scratch / "export"
        copy.mkdir(exist_ok=True)
        (copy / CHECKSUMS).unlink(missing_ok=True)
        for file in self.export.iterdir():  # what the input before has changed is put back
            if file.name not in (name, CHECKSUMS):
                shutil.copy(file, copy / file.name)
        (copy / name).write_bytes(content)
        return copy

    def file(self, name: str) -> bytes:
        return (self.export / name).read_bytes()

    def tree(self, name: str) -> Any:
        return yaml.safe_load(self.file(name)) if name == CONFIG else json.loads(self.file(name))

    def picture(self, suffix: str) -> bytes:
        buffer = io.BytesIO()
        image = Image.fromarray(PIXELS[0].repeat(2, 0).repeat(2, 1))
        exif = Image.Exif()
        exif[0x0112], exif[0x010F], exif[0x8825] = 6, "a camera", {1: "N"}
        options = {"exif": exif.tobytes()} if suffix in ("png", "jpg", "webp", "tiff") else {}
        image.save(buffer, self.formats[suffix], **options)
        return buffer.getvalue()

    def idx(self, name: str) -> bytes:
        header = bytes([0, 0, 8, 3]) + b"".join(size.to_bytes(4, "big") for size in PIXELS.shape)
        whole = header + PIXELS.tobytes()
        return gzip.compress(whole, mtime=0) if name.endswith(".gz") else whole

    def zipped(self) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for number in range(3):
                archive.writestr(f"img_align_celeba/{number + 1:06d}.jpg", self.picture("jpg"))
        return buffer.getvalue()

    def pairs(self) -> str:
        for number in range(10):
            self.put(f"{number}.png", self.picture("png"))
        rows = "".join(f"{row}.png,{(row + 1) % 10}.png,thickness=1,3,0\n" for row in range(10))
        return "before,after,do,thickness,label\n" + rows

    def onnx(self) -> bytes:
        from onnx import TensorProto, helper, numpy_helper

        weight = numpy_helper.from_array(np.ones((1, 784), dtype=np.float32) / 784, "w")
        nodes = [helper.make_node("Flatten", ["x"], ["flat"]), helper.make_node("Gemm", ["flat", "w"], ["y"], transB=1)]
        image = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 28, 28])
        answer = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1])
        graph = helper.make_graph(nodes, "classifier", [image], [answer], [weight])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        return bytes(made.SerializeToString())

    def listing(self, name: str) -> str:
        return (self.celeba / name).read_text()

    def checkpoint(self) -> dict[str, Any]:
        return torch.load(self.run / "last.ckpt", weights_only=True)


def plan(material: Material, text: str) -> None:
    schema = material.model.schema
    for do in parse_interventions(schema, [text]).values():
        assert asked_of(material.model.module, material.data.columns("test"), do).a_c.isfinite().all()


def given(material: Material, text: str) -> None:
    """What is said of one's own picture, and counterfactuals of that."""
    attributes = parse_assignments(text, "given")
    made = material.model.counterfactual(material.x, attributes, {"label": 2})
    assert made.images.isfinite().all()


def seeds(material: Material, values: tuple[str, str]) -> None:
    seed = generate.parser().parse_args(["m", "--do", "label=1", "--seed", values[0]]).seed
    evaluate.parser().parse_args(["m", "--seed", values[0], "--seeds", values[1]])
    material.model.counterfactual(material.x, material.given, {"label": 2}, seed=seed)


def command_line(material: Material, texts: list[str]) -> None:
    """Options of commands, up to the model, which does not exist."""
    for command in (generate, evaluate):
        assert command.main([*texts, "--do=label=1", str(material.scratch / "nothing")]) == 2


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
        calibrated_strength(found, model.schema, {"thickness": 3})
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


def idx(name: str) -> Callable[[Material, bytes], None]:
    return lambda material, content: read_idx(material.put(name, content), ndim=3)  # type: ignore[return-value]


def celeba(name: str) -> Callable[[Material, bytes], None]:
    def take(material: Material, content: bytes) -> None:
        folder = material.scratch / "celeba"
        if not folder.exists():
            shutil.copytree(material.celeba, folder)
        for file in (celeba_files.TABLE, celeba_files.PARTITION):
            shutil.copy(material.celeba / file, folder / file)
        (folder / name).write_bytes(content)
        table = celeba_files.read_table(folder, celeba_files.ImageFiles(folder), ["Young"])
        if name == celeba_files.PERSONS:
            celeba_files.read_persons(folder, table.names)

    return take


def archive(material: Material, content: bytes) -> None:
    path = material.put("img_align_celeba.zip", content)
    for name in Archive(path).entries:
        decoded_jpeg(Archive(path).read(name, 10**6), name)
    files = celeba_files.ImageFiles(material.scratch)
    list(files.decoded(list(files.stamps), 2))


def picture(material: Material, damage: tuple[str, bytes]) -> None:
    suffix, content = damage
    if suffix == "jpg":
        with contextlib.suppress(UserError):
            decoded_jpeg(content, "it")
    path = material.put(f"it.{suffix}", content)
    read_picture(path, (1, 28, 28), frame_of(material.data, (1, 28, 28)))


def pairs(material: Material, content: bytes) -> None:
    read_pairs(material.put("pairs.csv", content), SimpleNamespace(image_shape=(1, 28, 28)), material.model.schema)  # type: ignore[arg-type]


def onnx(material: Material, content: bytes) -> None:
    network = ExternalClassifier(load_network(material.put("it.onnx", content)))
    network(torch.zeros(2, 1, 28, 28))


def cached(material: Material, content: bytes) -> None:
    """A damaged file of our own cache is made again."""
    whole = {"x": np.arange(20)}
    path = cache.location(material.scratch, "it", {})
    path.write_bytes(content)
    found = cache.prepared(material.scratch, "it", {}, lambda: whole, ["x"])
    assert np.array_equal(found["x"], whole["x"])


def packed_images(material: Material, content: bytes) -> None:
    """Of a damaged pack, the damaged blocks are made again."""
    path = material.put("it.npy", content)
    found = packed(path, PIXELS.shape, lambda rows: PIXELS[rows])
    assert np.array_equal(found, PIXELS)


def whole_pack(material: Material) -> bytes:
    path = material.scratch / "whole.npy"
    packed(path, PIXELS.shape, lambda rows: PIXELS[rows])
    return path.read_bytes()


def whole_cache(material: Material) -> bytes:
    folder = material.folder / "cache"
    cache.prepared(folder, "it", {}, lambda: {"x": np.arange(20)})
    return cache.location(folder, "it", {}).read_bytes()


def header_of_weights(material: Material) -> st.SearchStrategy[bytes]:
    """The weights with their header, a JSON text of which the first eight bytes are the length, exchanged."""
    whole = material.file(WEIGHTS)
    size = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + size]) | {"__metadata__": {"format": "pt"}}

    def with_header(tree: Any) -> bytes:
        text = dumped(tree)
        return len(text).to_bytes(8, "little") + text + whole[8 + size :]

    return st.one_of(damaged_tree(header).map(with_header), damaged(whole))


def options(material: Material) -> st.SearchStrategy[list[str]]:
    names = st.sampled_from(["--seed", "--index", "--given", "--images", "--out", "--metrics", "--count", "--seeds", "--batch_size",
                             "--split", "--predictor", "--devices", "--values", "--x", "-", "--"])  # fmt: skip
    return st.lists(st.one_of(names, words("test", "0-3", "1")), max_size=5).map(
        lambda many: [word for word in many if word not in ("-h", "--help")]
    )


def checkpoints(material: Material) -> st.SearchStrategy[Any]:
    contents = material.checkpoint()
    whole = (material.run / "last.ckpt").read_bytes()
    return st.one_of(damaged(whole), damaged_tree(contents).filter(lambda tree: tree is not None))


def of_assignments(right: str, take: Callable[[Material, Any], object]) -> Parser:
    return Parser(lambda material: assignments("thickness", "label"), take, lambda material: right)


def of_words(right: Any, take: Callable[[Material, Any], object], *known: str) -> Parser:
    return Parser(lambda material: words(*known), take, lambda material: right)


def of_file(content: Callable[[Material], bytes], take: Callable[[Material, Any], object]) -> Parser:
    return Parser(lambda material: damaged(content(material)), take, content)


def of_text(content: Callable[[Material], str], take: Callable[[Material, Any], object]) -> Parser:
    return Parser(lambda material: damaged_text(content(material)), take, lambda material: content(material).encode())


def of_tree(name: str, take: Callable[[Material, Any], object]) -> Parser:
    """A file of the exported model, in JSON or YAML."""

    def inputs(material: Material) -> st.SearchStrategy[bytes]:
        return st.one_of(damaged_tree(material.tree(name)).map(dumped), damaged(material.file(name)))

    return Parser(inputs, take, lambda material: material.file(name))


PARSERS: dict[str, Parser] = {
    "do": of_assignments("thickness=3,label=1", plan),
    "curve": of_assignments("thickness=1,2", lambda material, text: parse_curves(material.model.schema, [text])),
    "given": of_assignments("thickness=3,label=1", given),
    "among": of_assignments("label=1", lambda material, text: parse_cohorts(material.model.schema, [text])),
    "index": of_words(
        "0-3,7", lambda material, text: generate.parse_index(text), "0-9", "1,5", "-", "3", "99999999999"
    ),
    "seed": Parser(
        lambda material: st.tuples(words("0", "1", "18446744073709551616"), words("1", "3")),
        seeds,
        lambda material: ("7", "2"),
    ),
    "options": Parser(options, command_line, lambda material: ["--seed", "1"]),
    "name": of_words("faces csali", lambda material, text: require_folder_name(text), "run", "/", ".."),
    "config of a run": of_tree(CONFIG, run_config),
    "config of fit": of_tree(CONFIG, fit_config),
    "model.json": of_tree(CARD, loaded(CARD)),
    "cfgen verify": of_tree(CARD, verified(CARD)),
    "metrics.json": of_tree(SCORES, scores),
    "calibration.json": of_tree(CALIBRATION, calibration),
    "SHA256SUMS": of_text(lambda material: material.file(CHECKSUMS).decode(), checksums),
    "model.safetensors": Parser(header_of_weights, loaded(WEIGHTS), lambda material: material.file(WEIGHTS)),
    "examples.safetensors": of_file(lambda material: material.file(EXAMPLES), examples),
    "checkpoint": Parser(checkpoints, checkpoint, Material.checkpoint),
    "ONNX": of_file(Material.onnx, onnx),
    "picture": Parser(
        lambda material: st.sampled_from(sorted(material.formats)).flatmap(
            lambda suffix: st.tuples(st.just(suffix), damaged(material.picture(suffix)))
        ),
        picture,
        lambda material: ("jpg", material.picture("jpg")),
    ),
    "zip": of_file(Material.zipped, archive),
    "idx": of_file(lambda material: material.idx("it"), idx("it")),
    "idx.gz": of_file(lambda material: material.idx("it.gz"), idx("it.gz")),
    "morpho.csv": of_text(
        lambda material: MORPHO, lambda material, content: digits._read_morpho(material.put("it.csv", content), 12)
    ),
    "pairs.csv": of_text(Material.pairs, pairs),
    "CelebA attributes": of_text(lambda material: material.listing(celeba_files.TABLE), celeba(celeba_files.TABLE)),
    "CelebA partition": of_text(
        lambda material: material.listing(celeba_files.PARTITION), celeba(celeba_files.PARTITION)
    ),
    "CelebA identities": of_text(
        lambda material: material.listing(celeba_files.PARTITION), celeba(celeba_files.PERSONS)
    ),
    "cache": of_file(whole_cache, cached),
    "packed images": of_file(whole_pack, packed_images),
}
