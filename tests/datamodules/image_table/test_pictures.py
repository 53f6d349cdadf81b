"""Pictures of a folder: of any format, framed and resized, each once and in one split."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms.v2.functional import center_crop, pad, pil_to_tensor, resize

from cfgen.errors import UserError
from cfgen.runs.pictures import frame_of, read_picture
from datamodules import ImageTable
from datamodules.image_table import TableError
from datamodules.sources.picture_files import SPLITS
from tests.datamodules.image_folder import make_folder, ready, table_of, write_table


def images(data: ImageTable) -> dict[str, torch.Tensor]:
    return {name: image for split in SPLITS for name, image in zip(data.names(split), data.images(split), strict=True)}


def reference(path: Path, size: int, framing: str, mode: str = "RGB") -> torch.Tensor:
    """One picture as torchvision's transforms make it."""
    with Image.open(path) as picture:
        pixels = pil_to_tensor(picture.convert(mode))
    _, height, width = pixels.shape
    if framing == "crop":
        return resize(center_crop(pixels, [min(height, width)] * 2), [size, size], antialias=True)
    side = max(height, width)
    left, top = (side - width) // 2, (side - height) // 2
    return resize(pad(pixels, [left, top, side - width - left, side - height - top]), [size, size], antialias=True)


@pytest.mark.parametrize(
    ("framing", "size", "channels"), [("crop", 16, 3), ("pad", 16, 3), ("crop", 48, 3), ("pad", 20, 1)]
)
def test_packed_images_equal_decoding_each_picture(
    folder: Path, tmp_path: Path, framing: str, size: int, channels: int
) -> None:
    data = ready(folder, tmp_path, image_size=size, framing=framing, channels=channels)
    mode = "L" if channels == 1 else "RGB"
    for name, image in images(data).items():
        assert torch.equal(image, reference(folder / name, size, framing, mode)), name
    # a picture from elsewhere is framed in the same way
    for name, image in list(images(data).items())[:8]:
        own = read_picture(folder / name, data.image_shape, frame_of(data, data.image_shape))
        assert torch.equal(own, image)


def one_picture(folder: Path, picture: Image.Image, name: str, **options: object) -> torch.Tensor:
    """What becomes of a picture that replaces the first of a folder, at its own size."""
    (folder / name).parent.mkdir(exist_ok=True)
    picture.save(folder / name, **options)
    lines = (folder / "metadata.csv").read_text(encoding="utf-8").splitlines()
    lines[1] = ",".join([name, *lines[1].split(",")[1:]])
    (folder / "metadata.csv").write_text("\n".join(lines), encoding="utf-8")
    data = ready(folder, folder.parent / "cache", image_size=16, channels=3)
    return images(data)[name]


def gradient(mode: str = "L") -> Image.Image:
    return Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16)).convert(mode)


def test_camera_that_was_held_sideways(copied: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    seen = one_picture(copied, gradient("RGB"), "turned.png", exif=exif)
    assert torch.equal(seen, pil_to_tensor(gradient("RGB").transpose(Image.Transpose.ROTATE_270)))


def test_sixteen_bits(copied: Path) -> None:
    deep = Image.fromarray(np.arange(256, dtype=np.uint16).reshape(16, 16) * 257)
    assert torch.equal(one_picture(copied, deep, "deep.png")[0], pil_to_tensor(gradient())[0])


def test_thirty_two_bits_are_refused(copied: Path) -> None:
    with pytest.raises(TableError, match="row 2, column file_name: deep.tiff has 32 bits for a pixel"):
        one_picture(copied, Image.new("F", (16, 16)), "deep.tiff")


def test_palette(copied: Path) -> None:
    colours = gradient("RGB").quantize(256)
    assert colours.mode == "P"
    assert torch.equal(one_picture(copied, colours, "palette.png"), pil_to_tensor(colours.convert("RGB")))


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_what_is_transparent_is_black(copied: Path, mode: str) -> None:
    picture = Image.new("L", (16, 16), 200).convert(mode)
    alpha = Image.fromarray(np.tile(np.repeat(np.array([0, 255], dtype=np.uint8), 8), (16, 1)))
    picture.putalpha(alpha)
    seen = one_picture(copied, picture, "clear.png")
    assert (seen[:, :, :8] == 0).all()
    assert (seen[:, :, 8:] == 200).all()


def test_accents_that_are_put_together_differently(copied: Path, tmp_path: Path) -> None:
    """macOS writes an umlaut as a letter and its dots, spreadsheets as one letter."""
    decomposed = copied / "u\u0308bung.png"
    gradient("RGB").save(decomposed)
    lines = (copied / "metadata.csv").read_text(encoding="utf-8").splitlines()
    lines[1] = ",".join(["\u00fcbung.png", *lines[1].split(",")[1:]])
    (copied / "metadata.csv").write_text("\n".join(lines), encoding="utf-8")
    assert decomposed.name in images(ready(copied, tmp_path / "cache"))


def test_grey_pictures_have_one_channel(tmp_path: Path) -> None:
    records = make_folder(tmp_path / "mine")
    for record in records:
        path = tmp_path / "mine" / record["file_name"]
        with Image.open(path) as picture:
            grey = picture.convert("L")
        path.unlink()
        record["file_name"] = str(Path(record["file_name"]).with_suffix(".png"))
        grey.save(tmp_path / "mine" / record["file_name"])
    write_table(tmp_path / "mine", records)
    assert table_of(tmp_path / "mine", tmp_path / "cache").image_shape == (1, 16, 16)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"this is no picture", "cannot be read as an image"), (None, "cannot be read as an image")],
)
def test_unreadable_picture_is_named_with_its_row(
    copied: Path, tmp_path: Path, content: bytes | None, message: str
) -> None:
    name = "bilder größe/bild ä 005.JPG"
    whole = (copied / name).read_bytes()
    (copied / name).write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(TableError, match=f"metadata.csv, row 7, column file_name: {name} {message}") as caught:
        ready(copied, tmp_path / "cache", channels=3)
    assert "\n" not in str(caught.value)


def test_huge_picture_is_refused_before_it_is_decoded(copied: Path, tmp_path: Path) -> None:
    Image.new("1", (8000, 8000)).save(copied / "bilder größe/bild ä 004.png")
    with pytest.raises(TableError, match="row 6, .*64,000,000 pixels, and at most"):
        ready(copied, tmp_path / "cache", channels=3)


def test_copies_in_two_splits_are_refused(copied: Path, tmp_path: Path) -> None:
    data = ready(copied, tmp_path / "cache")
    ours, theirs = data.names("train")[3], data.names("test")[2]
    shutil.copy(copied / ours, copied / theirs)
    for _ in range(2):  # packed in between, it is still refused
        with pytest.raises(
            TableError, match="is the same picture as .*remove one, or put both into one split"
        ) as caught:
            ready(copied, tmp_path / "cache")
        assert repr(ours) in str(caught.value)
        assert repr(theirs) in str(caught.value)
        assert len(caught.value.findings) == 1


def test_copies_in_one_split_are_no_matter(copied: Path, tmp_path: Path) -> None:
    data = ready(copied, tmp_path / "cache")
    shutil.copy(copied / data.names("train")[3], copied / data.names("train")[4])
    assert len(ready(copied, tmp_path / "cache").images("train")) == 120


def test_one_picture_in_two_splits_is_refused_by_the_table(copied: Path, tmp_path: Path) -> None:
    lines = (copied / "metadata.csv").read_text(encoding="utf-8").splitlines()
    lines = [
        f"{lines[0]},split",
        *(f"{line},{'test' if row % 5 == 4 else 'train'}" for row, line in enumerate(lines[1:])),
    ]
    lines[5] = ",".join([lines[1].split(",")[0], *lines[5].split(",")[1:]])
    (copied / "metadata.csv").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(
        TableError, match="row 6, column file_name: .* is in the test split and, by row 2, in the train split"
    ):
        table_of(copied, tmp_path / "cache").scm_spec  # noqa: B018


def test_mirrored_in_training_alone(folder: Path, tmp_path: Path) -> None:
    data = ready(folder, tmp_path, flip=True)
    batch = next(iter(data.test_dataloader()))
    data.trainer = SimpleNamespace(training=True)  # type: ignore[assignment]
    torch.manual_seed(0)
    mirrored = data.on_after_batch_transfer(batch, 0).x * 255
    kept = [torch.allclose(one, other.float(), atol=1e-3) for one, other in zip(mirrored, batch.x, strict=True)]
    turned = [
        torch.allclose(one, other.flip(-1).float(), atol=1e-3) for one, other in zip(mirrored, batch.x, strict=True)
    ]
    assert all(one or other for one, other in zip(kept, turned, strict=True))
    assert 0 < sum(turned) < len(turned)


def test_a_folder_that_cannot_be_read(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.zip").write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(UserError, match=r"cannot read .*mine.zip"):
        ImageTable(str(tmp_path / "mine.zip")).scm_spec  # noqa: B018
    two = Path(shutil.copytree(folder, tmp_path / "two"))
    for name in ("a.zip", "b.zip"):
        (two / name).write_bytes(b"")
    with pytest.raises(UserError, match=r"2 zips \(a.zip, b.zip\)"):
        ImageTable(str(two)).scm_spec  # noqa: B018
    (tmp_path / "loop").mkdir()
    os.symlink(tmp_path / "loop", tmp_path / "loop" / "again")
    with pytest.raises(UserError, match=r"has no metadata.csv"):
        ImageTable(str(tmp_path / "loop")).scm_spec  # noqa: B018
