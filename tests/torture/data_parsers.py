"""The parsers of the files of data sets and studies: pictures, archives, tables and caches."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
from hypothesis import strategies as st

from cfgen.errors import UserError
from cfgen.io.archives import Archive
from cfgen.io.pictures import decoded_jpeg
from cfgen.runs.pairs import read_pairs
from cfgen.runs.pictures import frame_of, read_picture
from cfgen.study.answers import participants_of, read_lines
from cfgen.study.design import STUDY, Study
from datamodules import ImageTable
from datamodules.sources import cache, celeba_files, digits
from datamodules.sources.idx import read_idx
from datamodules.sources.packing import packed
from tests.torture.material import PIXELS, Material
from tests.torture.mutations import damaged
from tests.torture.parser import Parser, of_file, of_text, of_tree

__all__ = ["OF_DATA"]

MORPHO = "index,thickness,intensity\n" + "".join(f"{row},{2 + row / 10},{100 + row}\n" for row in range(12))


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


def image_table(name: str) -> Callable[[Material, bytes], None]:
    def take(material: Material, content: bytes) -> None:
        folder = material.scratch / "table"
        if not folder.exists():
            shutil.copytree(material.table, folder)
        shutil.copy(material.table / "metadata.csv", folder)
        (folder / name).write_bytes(content)
        ImageTable(str(folder)).arguments()
        (folder / name).unlink()

    return take


def study(material: Material, content: bytes) -> None:
    folder = material.scratch / "study"
    if not folder.exists():
        shutil.copytree(material.study, folder)
    (folder / STUDY).write_bytes(content)
    Study.read(folder)


def answers(material: Material, content: bytes) -> None:
    found = Study.read(material.study)
    lines = read_lines(material.scratch / "nothing", [material.put("answers.jsonl", content)])
    for person in participants_of(found, lines).participants:
        person.excluded(found)


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


OF_DATA: dict[str, Parser] = {
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
    "metadata.csv": of_text(
        lambda material: (material.table / "metadata.csv").read_text(), image_table("metadata.csv")
    ),
    "attributes.yaml": of_tree(lambda material: material.description().encode(), image_table("attributes.yaml")),
    "study.json": of_tree(lambda material: (material.study / STUDY).read_bytes(), study),
    "answers": of_text(Material.answers, answers),
    "cache": of_file(whole_cache, cached),
    "packed images": of_file(whole_pack, packed_images),
}
