"""CelebA: its own layout read as it is, packed pixels equal to decoding each JPEG, and what is said when files are broken."""

import os
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from PIL import Image
from torchvision.transforms.v2.functional import pil_to_tensor

from cfgen.batch import Batch
from cfgen.errors import UserError
from datamodules.celeba import CelebA
from datamodules.sources.celeba_files import ATTRIBUTES, PERSONS
from datamodules.sources.picture_files import SPLITS
from tests.datamodules.celeba_folder import (
    GONE,
    IMAGES,
    PARTITION,
    TABLE,
    cut,
    every_image,
    garbage,
    ready,
    reference,
)


def test_known_before_data_is_read(tmp_path: Path) -> None:
    data = CelebA(str(tmp_path / "nowhere"), image_size=32)
    names = list(data.scm_spec["attributes"])
    assert len(names) == 36
    assert not {"Attractive", "Blurry", "Male", "Young"} & set(names)
    assert all(spec == {"kind": "binary"} for spec in data.scm_spec["attributes"].values())
    assert (data.scm_spec["edges"], data.scm_spec["mechanisms"]) == ([], {})
    assert data.image_shape == (3, 32, 32)


@pytest.mark.parametrize(
    ("config", "edges"), [("celeba", []), ("celeba_young", ["Eyeglasses", "Gray_Hair", "Receding_Hairline"])]
)
def test_configs(config: str, edges: list[str]) -> None:
    path = Path(__file__).parents[2] / "configs" / "data" / f"{config}.yaml"
    spec = CelebA(**yaml.safe_load(path.read_text())["init_args"]).scm_spec
    assert sorted(effect for cause, effect in spec["edges"] if cause == "Young") == edges
    assert set(ATTRIBUTES) - set(spec["attributes"]) == {"Attractive", "Blurry", "Male"} | (
        {"Young"} if not edges else set()
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attributes": ["Bangs", "Attractive"]}, "'Attractive' is the target"),
        ({"attributes": ["Smiling"], "target": "Smiling"}, "'Smiling' is the target"),
        ({"attributes": ["Bang"]}, "Did you mean 'Bangs'.*Valid: 5_o_Clock_Shadow, "),
        ({"target": "Beautiful"}, "unknown attribute 'Beautiful'"),
        ({"attributes": ["Bangs", "Bangs"]}, "Bangs more than once"),
        ({"attributes": ["Bangs"], "edges": [["Young", "Bangs"]]}, "'Young'"),
        ({"attributes": ["Bangs"], "mechanisms": {"Smiling": {"kind": "cpt"}}}, "'Smiling'"),
        ({"image_size": 0}, "image_size"),
        ({"crop": -1}, "crop"),
        ({"batch_size": 0}, "batch_size"),
    ],
)
def test_wrong_options_are_refused_at_once(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CelebA(**options)


@pytest.mark.parametrize(("size", "crop"), [(64, 148), (32, 148), (128, 178), (20, 33)])
def test_packed_images_equal_decoding_each_jpeg(made: Path, tmp_path: Path, size: int, crop: int) -> None:
    data = ready(made, tmp_path, image_size=size, crop=crop)
    for split in SPLITS:
        images = data.images(split)
        assert images.shape == (len(data.names(split)), 3, size, size)
        for image, file in zip(images, data.names(split), strict=True):
            assert torch.equal(image, reference(made / IMAGES / file, size, crop))


def test_packed_images_are_pillows_within_a_grey_level(made: Path, tmp_path: Path) -> None:
    data = ready(made, tmp_path)
    for image, file in zip(data.images("test"), data.names("test"), strict=True):
        with Image.open(made / IMAGES / file) as photograph:
            square = photograph.crop((15, 35, 163, 183)).resize((64, 64), Image.Resampling.BILINEAR)
        assert (image.int() - pil_to_tensor(square).int()).abs().max() <= 1


def test_splits_are_those_of_the_partition(made: Path, tmp_path: Path) -> None:
    data = ready(made, tmp_path)
    lines = [line.split() for line in (made / PARTITION).read_text().splitlines()]
    for number, split in enumerate(SPLITS):
        assert data.names(split) == [file for file, part in lines if part == str(number) and file not in GONE]
        assert len(data.images(split)) == len(data.targets(split)) == len(data.names(split))


def test_attributes_in_the_order_that_was_asked_for(made: Path, tmp_path: Path) -> None:
    wanted = ["Young", "Bangs", "Pale_Skin"]
    data = ready(made, tmp_path, attributes=wanted)
    rows = {
        file: dict(zip(ATTRIBUTES, signs, strict=True))
        for file, *signs in map(str.split, (made / TABLE).read_text().splitlines()[2:])
    }
    assert data.schema.names == wanted
    for split in SPLITS:
        for column in wanted:
            assert data.columns(split)[column].tolist() == [
                float(rows[file][column] == "1") for file in data.names(split)
            ]
        assert data.targets(split).tolist() == [int(rows[file]["Attractive"] == "1") for file in data.names(split)]
    batch = next(iter(data.val_dataloader()))
    assert torch.equal(batch.a, torch.stack([data.columns("val")[column] for column in wanted], dim=1)[:4])
    other = ready(made, tmp_path, attributes=["Smiling"], target="Male")
    assert other.targets("test").tolist() == [int(rows[file]["Male"] == "1") for file in other.names("test")]
    assert other.cache_file == data.cache_file  # the pixels are the same


def test_zip_as_distributed(layout: Path, tmp_path: Path) -> None:
    plain = ready(layout, tmp_path / "cache")
    with zipfile.ZipFile(layout / f"{IMAGES}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((layout / IMAGES).iterdir()):
            archive.write(path, f"{IMAGES}/{path.name}")
    shutil.rmtree(layout / IMAGES)
    zipped = ready(layout, tmp_path / "other")
    assert zipped.cache_file.name == plain.cache_file.name
    assert torch.equal(every_image(zipped), every_image(plain))
    (layout / f"{IMAGES}.zip").write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(UserError, match="cannot read .*img_align_celeba.zip"):
        ready(layout, tmp_path / "third")


@pytest.mark.parametrize(("offset", "value", "word"), [(8, 1, "encrypted"), (10, 77, "compression")])
def test_a_zip_that_cannot_be_read(layout: Path, tmp_path: Path, offset: int, value: int, word: str) -> None:
    with zipfile.ZipFile(layout / f"{IMAGES}.zip", "w") as archive:
        for path in sorted((layout / IMAGES).iterdir()):
            archive.write(path, f"{IMAGES}/{path.name}")
    shutil.rmtree(layout / IMAGES)
    data = bytearray((layout / f"{IMAGES}.zip").read_bytes())
    data[data.index(b"PK\x01\x02") + offset] = value
    data[offset - 2] = value
    (layout / f"{IMAGES}.zip").write_bytes(data)
    with pytest.raises(UserError, match=word) as caught:
        ready(layout, tmp_path / "cache")
    assert "000001.jpg" in str(caught.value)


def test_where_the_folder_is(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "celeba").symlink_to(made)
    monkeypatch.setenv("CFGEN_DATA", str(tmp_path))
    data = CelebA(cache_dir=str(tmp_path / "cache"))
    data.setup()
    assert data.folder() == tmp_path / "celeba"


def test_no_celeba(layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CFGEN_DATA", raising=False)
    expected = r"img_align_celeba/ \(or img_align_celeba.zip\), list_attr_celeba.txt and list_eval_partition.txt.*mmlab.*datamodules.Faces"
    with pytest.raises(UserError, match=f"{expected}|give data_dir or set the variable CFGEN_DATA"):
        CelebA().prepare_data()
    with pytest.raises(UserError, match=expected) as caught:
        CelebA(str(tmp_path / "nowhere")).prepare_data()
    assert "\n" not in str(caught.value)
    (layout / PARTITION).unlink()
    with pytest.raises(UserError, match=f"not complete: {PARTITION} is missing"):
        CelebA(str(layout)).prepare_data()


def edit(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (TABLE, lambda lines: lines[:-3], "has 41 rows where its first line says 44: is it cut off"),
        (TABLE, lambda lines: ["", *lines[1:]], "does not begin with a count"),
        (
            TABLE,
            lambda lines: [lines[0], "Bangs Attractive", *(line[:16] for line in lines[2:])],
            "unknown attribute '5_o_Clock_Shadow'",
        ),
        (TABLE, lambda lines: [*lines[:-1], lines[2]], "names an image twice"),
        (TABLE, lambda lines: [*lines[:-1], lines[-1][:-2] + " 0"], "row of 000044.jpg has a value that is neither"),
        (TABLE, lambda lines: [*lines[:-1], lines[-1] + " 1"], "does not have 40 whole numbers"),
        (
            TABLE,
            lambda lines: [*lines[:-1], lines[-1][:-2] + " 99999"],
            "row of 000044.jpg has a value that is neither",
        ),
        (TABLE, lambda lines: [*lines[:-1], lines[-1][:-2] + f" {10**30}"], "does not have 40 whole numbers"),
        (TABLE, lambda lines: [*lines[:-1], lines[-1][:-2] + " x"], "does not have 40 whole numbers"),
        (
            PARTITION,
            lambda lines: [*lines[:7], "000008.jpg 3", *lines[8:]],
            "line 8: a name and 0, 1 or 2.*'000008.jpg 3'",
        ),
        (PARTITION, lambda lines: [line.replace(" 1", " 0") for line in lines], "no image of the val split"),
        (PARTITION, lambda lines: ["x.jpg 0"], "none of the 43 images"),
    ],
)
def test_broken_lists_are_named_in_one_line(
    layout: Path, tmp_path: Path, file: str, change: Callable[[list[str]], list[str]], message: str
) -> None:
    edit(layout / file, change)
    with pytest.raises(UserError, match=message) as caught:
        ready(layout, tmp_path / "cache")
    assert file in str(caught.value)
    assert "\n" not in str(caught.value)


def enormous(path: Path) -> None:
    """A JPEG of a few hundred bytes that says of itself that it is very large: decoded it would take all memory."""
    Image.new("L", (16, 16)).save(path)
    data = bytearray(path.read_bytes())
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 9] = struct.pack(">HH", 65500, 65500)
    path.write_bytes(data)


def tiny(path: Path) -> None:
    Image.new("RGB", (100, 100)).save(path)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (garbage, "000007.jpg is not a readable JPEG"),
        (cut, "000007.jpg is not a readable JPEG: .*truncated"),
        (lambda path: path.write_bytes(b""), "000007.jpg is not a readable JPEG"),
        (enormous, "000007.jpg has 4,290,250,000 pixels"),
        (tiny, "000007.jpg has 100 x 100 pixels: too small for a crop of 148"),
    ],
)
def test_broken_image_is_named_in_one_line(
    layout: Path, tmp_path: Path, spoil: Callable[[Path], object], message: str
) -> None:
    spoil(layout / IMAGES / "000007.jpg")
    with pytest.raises(UserError, match=message) as caught:
        ready(layout, tmp_path / "cache")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("cache/*.npy"))


def test_grey_image_becomes_three_channels(layout: Path, tmp_path: Path) -> None:
    path = layout / IMAGES / "000001.jpg"
    with Image.open(path) as image:
        grey = image.convert("L")
    grey.save(path)
    image = ready(layout, tmp_path / "cache").images("train")[0]
    assert torch.equal(image, reference(path, 64))
    assert torch.equal(image[0], image[2])


def flipped(data: CelebA, batch: Batch, training: bool = True, seed: int = 0) -> Batch:
    data.trainer = SimpleNamespace(training=training)  # type: ignore[assignment]
    torch.manual_seed(seed)
    return data.on_after_batch_transfer(batch, 0)


def test_flip(made: Path, tmp_path: Path) -> None:
    """Each training image is itself or its mirror image, half and half; nothing else is touched."""
    data = ready(made, tmp_path, flip=True)
    x = data.images("train")[torch.arange(400) % len(data.images("train"))]
    batch = Batch(x, torch.zeros(400, data.schema.size), torch.arange(400))
    result = flipped(data, batch)
    same = (result.x == x / 255).flatten(1).all(dim=1)
    mirrored = (result.x == x.flip(-1) / 255).flatten(1).all(dim=1)
    assert (same ^ mirrored).all()
    assert 150 < mirrored.sum() < 250
    assert torch.equal(result.y, batch.y)
    assert torch.equal(flipped(data, batch).x, result.x)
    assert not torch.equal(flipped(data, batch, seed=1).x, result.x)
    assert flipped(data, result) is result  # once only
    assert torch.equal(flipped(data, batch, training=False).x, x / 255)
    data.flip = False
    assert torch.equal(flipped(data, batch).x, x / 255)


def test_real_celeba(real_data: Path, tmp_path: Path) -> None:
    """A few photographs, with the official lists of all."""
    source = real_data / "celeba"
    (tmp_path / IMAGES).mkdir()
    partition = dict(line.split() for line in (source / PARTITION).read_text().splitlines())
    chosen: dict[str, list[str]] = {"0": [], "1": [], "2": []}
    for file in sorted(os.listdir(source / IMAGES)):
        if len(chosen[partition[file]]) < 8:
            chosen[partition[file]].append(file)
            (tmp_path / IMAGES / file).symlink_to(source / IMAGES / file)
    for file in (TABLE, PARTITION):
        (tmp_path / file).symlink_to(source / file)
    data = ready(tmp_path, tmp_path / "cache", attributes=["Young", "Eyeglasses"])
    table = {line.split(" ", 1)[0]: line.split()[1:] for line in (source / TABLE).read_text().splitlines()[2:]}
    for split, number in zip(SPLITS, "012", strict=True):
        assert data.names(split) == chosen[number]
        for row, file in enumerate(chosen[number]):
            assert torch.equal(data.images(split)[row], reference(source / IMAGES / file, 64))
            for column, value in (("Young", data.columns(split)["Young"]), ("Attractive", data.targets(split))):
                assert value[row] == (table[file][ATTRIBUTES.index(column)] == "1")


def test_persons_are_those_of_the_file_of_identities(layout: Path, tmp_path: Path) -> None:
    names = [file.name for file in (layout / IMAGES).iterdir()]
    (layout / PERSONS).write_text("".join(f"{file} {int(file[:6]) % 7}\n" for file in reversed(names)))
    data = ready(layout, tmp_path, image_size=20)
    for split in SPLITS:
        assert data.persons(split).tolist() == [int(file[:6]) % 7 for file in data.names(split)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"has no identity_CelebA.txt, which says who is in a photograph\. Get it from https://"),
        ("000003.jpg 12\n000008.jpg\n", "line 2: a name and the number of a person are expected, not '000008.jpg'"),
        ("000003.jpg 12\n000008.jpg Ann\n", "line 2: a name and the number"),
        ("000003.jpg 12\n", "does not say who is in 000008.jpg"),
    ],
)
def test_without_a_file_of_identities_only_persons_are_refused(
    layout: Path, tmp_path: Path, content: str | None, message: str
) -> None:
    if content is not None:
        (layout / PERSONS).write_text(content)
    data = ready(layout, tmp_path, image_size=20)
    assert len(data.images("val"))
    with pytest.raises(UserError, match=message):
        data.persons("val")
