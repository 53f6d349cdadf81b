"""What is damaged: small files of every kind that cfgen reads, as they should be."""

from __future__ import annotations

import gzip
import io
import shutil
import zipfile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image

from cfgen.checkpoints import EXAMPLES, PACKAGED
from cfgen.io.checksums import CHECKSUMS
from cfgen.runs.card import CALIBRATION
from cfgen.runs.export import SCORES, export
from cfgen.runs.model import load_trained
from cfgen.study.design import Study
from cfgen.study.making import new_study
from cfgen.study.simulation import simulated_lines
from datamodules import ImageTable
from lightning_modules import CondALI
from tests.datamodules.celeba_folder import make_celeba
from tests.datamodules.image_folder import make_folder
from tests.fakes import Noisy, finished, fitted

__all__ = ["PIXELS", "Material"]

PIXELS = np.arange(12 * 28 * 28, dtype=np.uint32).astype(np.uint8).reshape(12, 28, 28)


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
        self.table = folder / "table"
        make_folder(self.table)
        self.study = folder / "study"
        new_study(self.digits, [{"label": 7}], each=3, count=4, practice=1, catch=1).save(self.study)

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

    def description(self) -> str:
        """What can be said of a folder of pictures, in YAML."""
        return ImageTable(str(self.table)).description

    def answers(self) -> str:
        return "\n".join(line for _, line in simulated_lines(Study.read(self.study), {"guessing": 2}))

    def checkpoint(self) -> dict[str, Any]:
        return torch.load(self.run / "last.ckpt", weights_only=True)
