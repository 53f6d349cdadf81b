"""The doors for files: each kind of bad file is one clear `UserError`, found before it can do harm."""

import os
import struct
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from cfgen.errors import UserError
from cfgen.io import files, pictures
from cfgen.io.archives import Archive
from cfgen.io.checksums import CHECKSUMS, checksums_of, listed_checksums, require_unchanged
from cfgen.io.names import require_folder_name

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


def refused(function, *arguments) -> str:
    with pytest.raises(UserError) as caught:
        function(*arguments)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    return str(caught.value)


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00", b"[1, 2]", b"3", b"{", b"", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"]
)
def test_json_that_is_no_object(tmp_path, content):
    (tmp_path / "x.json").write_bytes(content)
    assert "x.json" in refused(files.read_json, tmp_path / "x.json")


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe\x00", b"- 1", b"text", b"a: [", b"", b"3: 4", b"a: 2024-99-99", b"[" * 5000, b"a: !!python/object/apply:os.getcwd []",
     b"a: &a [*a]", LAUGHS.encode()],
)  # fmt: skip
def test_yaml_that_is_no_mapping_or_stands_for_too_much(tmp_path, content):
    (tmp_path / "x.yaml").write_bytes(content)
    assert "x.yaml" in refused(files.read_yaml, tmp_path / "x.yaml")


def test_aliases_are_fine_where_they_stand_for_little(tmp_path):
    (tmp_path / "x.yaml").write_text("a: &a [1, 2]\nb: *a\n")
    assert files.read_yaml(tmp_path / "x.yaml") == {"a": [1, 2], "b": [1, 2]}


def test_what_is_no_file_or_too_large(tmp_path, monkeypatch):
    refused(files.read_text, tmp_path)
    refused(files.read_text, tmp_path / "nowhere")
    monkeypatch.chdir(tmp_path)  # the message has the path in it, and is held to a length
    refused(files.read_text, Path("x" * 300))
    os.mkfifo(tmp_path / "pipe")  # nobody writes to it: whoever waits, waits for ever
    refused(files.read_text, tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * 11)
    assert "10 bytes" in refused(files.read_bytes, tmp_path / "large", 10)


def test_a_table_with_a_mark_and_one_that_is_none(tmp_path):
    (tmp_path / "x.csv").write_bytes(b'\xef\xbb\xbfname,"a, b"\r\n1,"two\nlines"\n')
    assert files.read_csv(tmp_path / "x.csv") == [["name", "a, b"], ["1", "two\nlines"]]
    (tmp_path / "x.csv").write_bytes(b"a,\x00b\xff")
    refused(files.read_csv, tmp_path / "x.csv")


def enlarged(path: Path, side: int) -> Path:
    """A JPEG of a few hundred bytes whose header promises a very large picture."""
    Image.new("L", (16, 16)).save(path)
    data = bytearray(path.read_bytes())
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 9] = struct.pack(">HH", side, side)
    path.write_bytes(data)
    return path


def test_pictures_that_are_too_large_are_not_decoded(tmp_path, monkeypatch):
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda self: pytest.fail("it was decoded"))
    for side in (8_000, 12_000, 65_500):  # below Pillow's warning, below its error, and above
        path = enlarged(tmp_path / "bomb.jpg", side)
        assert "pixels" in refused(pictures.decoded_picture, path)
        assert "pixels" in refused(pictures.decoded_jpeg, path.read_bytes(), "bomb.jpg")


@pytest.mark.parametrize(
    "content", [b"", b"no picture", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", b"\xff\xd8\xff\xe0"]
)
def test_what_is_no_picture(tmp_path, content):
    (tmp_path / "x.png").write_bytes(content)
    refused(pictures.decoded_picture, tmp_path / "x.png")
    refused(pictures.decoded_jpeg, content, "x.png")


def test_a_truncated_picture_and_a_large_file(tmp_path, monkeypatch):
    for suffix in ("png", "jpg", "webp", "bmp", "gif", "tiff", "ppm"):
        path = tmp_path / f"x.{suffix}"
        Image.effect_noise((64, 64), 50).save(path)
        assert pictures.decoded_picture(path).size == (64, 64)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        if suffix != "gif":  # Pillow fills what a GIF lacks
            refused(pictures.decoded_picture, path)
    monkeypatch.setattr(pictures, "MOST_BYTES", 100)
    assert "100 bytes" in refused(pictures.decoded_picture, path)


def test_zips(tmp_path):
    path = tmp_path / "x.zip"
    path.write_bytes(b"PK no zip")
    refused(Archive, path)
    for name in ("../x.jpg", "/etc/x.jpg", "a/../../x.jpg", "..\\x.jpg", "C:/x.jpg"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, b"x")
        assert "leads out" in refused(Archive, path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/x.jpg", b"x" * 1000)
    assert Archive(path).read("a/x.jpg", most=1000) == b"x" * 1000
    assert "999" in refused(Archive(path).read, "a/x.jpg", 999)


@pytest.mark.parametrize(("offset", "value", "word"), [(8, 1, "encrypted"), (10, 77, "compression")])
def test_zips_that_are_encrypted_or_packed_in_an_unknown_way(tmp_path, offset, value, word):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.jpg", b"x" * 1000)
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + offset] = value  # in the zip's directory
    data[offset - 2] = value  # in front of the file
    path.write_bytes(data)
    assert word in refused(Archive(path).read, "x.jpg", 1000)


@pytest.mark.parametrize(
    "name", ["", " ", ".", "..", "a/b", "a\\b", "a\nb", "a\tb", "\x00", " a", "a ", "/", "x" * 300, "a\u2028b"]
)
def test_what_is_no_name_of_a_folder(name):
    refused(require_folder_name, name)


@pytest.mark.parametrize("name", ["a", "faces csali", "Größe-7", "a.b", ".hidden"])
def test_names_of_folders(name):
    assert require_folder_name(name) == name


def test_checksums(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"2")
    assert listed_checksums(tmp_path) is None
    require_unchanged(tmp_path, ["a", "b"])  # nothing is said of them
    (tmp_path / CHECKSUMS).write_text(checksums_of(tmp_path, ["b", "a"]))
    assert list(listed_checksums(tmp_path)) == ["a", "b"]
    require_unchanged(tmp_path, ["a", "b"])
    (tmp_path / "b").write_bytes(b"3")
    require_unchanged(tmp_path, ["a"])
    assert "checksum" in refused(require_unchanged, tmp_path, ["a", "b"])
    (tmp_path / "b").unlink()
    assert "not complete" in refused(require_unchanged, tmp_path, ["a", "b"])


@pytest.mark.parametrize(
    "line", ["nothing", f"{'0' * 64}  ../x", f"{'0' * 64}  a/b", f"{'0' * 63}g  a", f"{'0' * 64}  .."]
)
def test_a_list_of_checksums_that_is_none(tmp_path, line):
    (tmp_path / CHECKSUMS).write_text(f"{line}\n")
    assert CHECKSUMS in refused(listed_checksums, tmp_path)
