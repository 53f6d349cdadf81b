"""True counterfactuals for an audit: of data that knows or can make them, and a user's own pictures before and after."""

import csv
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from cfgen.attributes import Schema
from cfgen.errors import UserError
from cfgen.interventions import parse_intervention
from cfgen.runs.pairs import OutsidePairs, Pairs, read_pairs, true_pairs
from cfgen.scm import AttributeSCM
from datamodules import Faces, MorphoMNIST
from tests.fakes import FACES, Painted

OLD = ("Eyeglasses", "Gray_Hair", "Receding_Hairline")  # follow from Young
SHAPE = (3, 8, 8)
KINDS = {
    "Bangs": {"kind": "binary"},
    "Young": {"kind": "binary"},
    "size": {"kind": "continuous", "low": 0.0, "high": 9.0},
    "colour": {"kind": "categorical", "values": ["red", "green"]},
}
SCHEMA = Schema(KINDS)


# data that knows its true counterfactuals, or can make them


def test_faces_are_those_that_were_drawn_from_the_truth(data: Faces) -> None:
    rows = torch.tensor([4, 0, 11])
    truth = true_pairs(data, data.schema, "test", rows, {"Young": 0}, torch.full((3, data.schema.size), torch.nan))
    a_c = data.schema.encode(data.true_attributes("test", rows, {"Young": 0}))
    assert truth is not None
    assert torch.equal(truth, data.true_counterfactual("test", rows, a_c))
    assert not torch.equal(truth, data.images("test")[rows])


def test_held_effects_keep_the_faces_own_values(data: Faces) -> None:
    """The true direct effect: age alone changes, in each face with its own hair and glasses."""
    rows = torch.arange(30)
    own = {name: column[rows] for name, column in data.columns("test").items()}
    followed = data.true_attributes("test", rows, {"Young": 0})
    assert any(not torch.equal(followed[name], own[name]) for name in OLD)
    a_c = data.schema.encode(own | {"Young": torch.zeros(30)})
    truth = true_pairs(data, data.schema, "test", rows, {"Young": 0}, a_c, hold=OLD)
    assert truth is not None
    assert torch.equal(truth, data.true_counterfactual("test", rows, a_c))


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> tuple[MorphoMNIST, AttributeSCM]:
    data = MorphoMNIST(
        limit=200, mechanisms={"intensity": {"kind": "gaussian"}}, cache_dir=str(tmp_path_factory.mktemp("digits"))
    )
    data.setup()
    return data, AttributeSCM(**data.scm_spec).fit(data.train_columns)


def asked(data: Any, scm: AttributeSCM, rows: Tensor, do: dict[str, Any]) -> Tensor:
    """The model's counterfactual attributes of chosen rows."""
    return scm.counterfactual_vector(scm.schema.encode(data.columns("test")), do)[rows]


def test_digits_are_redrawn_with_the_effects_of_what_is_asked(digits: tuple[MorphoMNIST, AttributeSCM]) -> None:
    data, scm = digits
    rows = torch.tensor([7, 2, 19])
    own = {name: column[rows] for name, column in data.columns("test").items()}
    a_c = asked(data, scm, rows, {"thickness": 3.5})
    wanted = own | {name: scm.schema.decode(a_c)[name] for name in ("thickness", "intensity")}
    truth = true_pairs(data, scm.schema, "test", rows, {"thickness": 3.5}, a_c)
    assert truth is not None
    assert torch.equal(truth, data.set_attributes(data.images("test")[rows], own, wanted))
    measured = data.measure(truth / 255, ["intensity"])["intensity"]
    torch.testing.assert_close(measured, wanted["intensity"], rtol=0, atol=10.0)  # the brightest are cut off at 255
    assert (wanted["intensity"] - own["intensity"]).abs().max() > 20


def test_held_intensity_stays(digits: tuple[MorphoMNIST, AttributeSCM]) -> None:
    data, scm = digits
    rows = torch.arange(6)
    own = data.columns("test")["intensity"][rows]
    a_c = asked(data, scm, rows, {"thickness": 3.5})
    truth = true_pairs(data, scm.schema, "test", rows, {"thickness": 3.5}, a_c, hold=["intensity"])
    assert truth is not None
    torch.testing.assert_close(data.measure(truth / 255, ["intensity"])["intensity"], own, rtol=0, atol=3.0)


def test_images_that_have_the_values_come_back_as_they_are(digits: tuple[MorphoMNIST, AttributeSCM]) -> None:
    data, scm = digits
    rows, columns = torch.arange(10), data.columns("test")
    value = columns["slant"][4].item()
    truth = true_pairs(data, scm.schema, "test", rows, {"slant": value}, asked(data, scm, rows, {"slant": value}))
    assert truth is not None
    assert torch.equal(truth[4], data.images("test")[4])
    same = true_pairs(data, scm.schema, "test", rows, {}, asked(data, scm, rows, {}))
    assert same is not None
    assert torch.equal(same, data.images("test")[rows])


def test_nobody_can_say_what_another_label_would_look_like(digits: tuple[MorphoMNIST, AttributeSCM]) -> None:
    data, scm = digits
    rows = torch.arange(10)
    for do in ({"label": 3}, {"label": 3, "slant": 0.1}):
        assert true_pairs(data, scm.schema, "test", rows, do, asked(data, scm, rows, do)) is None


def test_other_data_has_no_true_pairs() -> None:
    data = Painted(FACES)
    data.setup()
    a_c = data.schema.encode(data.columns("test"))[:3]
    assert true_pairs(data, data.schema, "test", torch.arange(3), {"Bangs": 1}, a_c) is None


def test_what_is_set_cannot_be_held(data: Faces) -> None:
    with pytest.raises(UserError) as refusal:
        true_pairs(data, data.schema, "test", torch.arange(3), {"Young": 0}, torch.zeros(3, 15), hold=["Young"])
    assert refusal.value.argument == "hold"


# a user's own pictures

Rows = list[dict[str, Any]]


@pytest.fixture
def painted() -> Painted:
    return Painted(KINDS, image_shape=SHAPE)  # not even read


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    """Twelve pairs of pictures, in a folder beside the table, as the set's images are: nothing is lost by framing."""
    (tmp_path / "mine").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (24, 8, 8, 3), dtype=np.uint8)
    table = []
    for k, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / "mine" / f"{k}.{('png', 'bmp')[k % 2]}")
    for k in range(12):
        own = {"Bangs": 0, "Young": k % 2, "size": 3 + k / 4, "colour": ("red", "green")[k % 2]}
        table.append({"before": f"mine/{2 * k}.png", "after": f"mine/{2 * k + 1}.bmp", "do": "Bangs=1", **own})
    return table


def write(table: Rows, path: Path = Path("pairs.csv"), encoding: str = "utf-8") -> Path:
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    return path


def matching(pairs: OutsidePairs, do: str | dict[str, Any], schema: Schema = SCHEMA) -> Pairs | None:
    return pairs.matching(parse_intervention(do).bind(schema, lambda name: 1.0))


def picture(path: str | Path) -> Tensor:
    return torch.from_numpy(np.array(Image.open(path))).permute(2, 0, 1)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_pairs_are_the_pictures_and_their_values(rows: Rows, painted: Painted, encoding: str) -> None:
    pairs = read_pairs(write([row | {"note": "Größe, außen"} for row in rows], encoding=encoding), painted, SCHEMA)
    assert pairs.interventions == ("Bangs=1",)
    before, after, columns = matching(pairs, "Bangs=1")
    assert (before.dtype, after.dtype, before.shape, after.shape) == (*2 * (torch.uint8,), *2 * ((12, *SHAPE),))
    for k, row in enumerate(rows):
        assert torch.equal(before[k], picture(row["before"]))
        assert torch.equal(after[k], picture(row["after"]))
    assert list(columns) == list(KINDS)
    assert columns["colour"].tolist() == [0, 1] * 6  # positions, as in any column
    assert columns["size"].tolist() == [row["size"] for row in rows]
    assert SCHEMA.encode(columns).shape == (12, SCHEMA.size)


def test_interventions_are_kept_apart_and_their_order_does_not_matter(rows: Rows, painted: Painted) -> None:
    """The same intervention as people write it: in any order, with spaces, as 1 or 1.0."""
    joint = ["Young=1,Bangs=1", "Bangs=1,Young=1", " Bangs = 1 , Young = 1.0"]
    doubled = rows + [row | {"do": joint[k % 3]} for k, row in enumerate(rows)]
    pairs = read_pairs(write(doubled[::2] + doubled[1::2]), painted, SCHEMA)
    assert len(pairs.interventions) == 2
    for do in (*joint, {"Young": 1, "Bangs": 1}):
        assert sorted(matching(pairs, do).columns["size"].tolist()) == [row["size"] for row in rows]
    for do in ("Young=0", "Young=1", "size=+1", "size=1:2"):
        assert matching(pairs, do) is None


def test_a_sets_own_files_come_out_as_its_images(data: Faces) -> None:
    """Pictures take the way through crop and resize that the set's did."""
    names, images = data.names("test"), data.folder() / "img_align_celeba"
    chosen = [k for k, value in enumerate(data.columns("test")["Bangs"].tolist()) if not value][:11]
    own = [{name: int(column[k]) for name, column in data.columns("test").items()} for k in chosen]
    table = [
        {"before": images / names[k], "after": images / names[k - 1], "do": "Bangs=1", **values}
        for k, values in zip(chosen, own, strict=True)
    ]
    before, after, columns = matching(read_pairs(write(table), data, data.schema), "Bangs=1", data.schema)
    assert torch.equal(before, data.images("test")[chosen])
    assert torch.equal(after, data.images("test")[[k - 1 for k in chosen]])
    assert torch.equal(columns["Young"], data.columns("test")["Young"][chosen])


@pytest.mark.parametrize(("kind", "options"), [("webp", {"lossless": True}), ("jpeg", {"quality": 100})])
def test_other_formats_and_sizes(rows: Rows, painted: Painted, kind: str, options: dict[str, Any]) -> None:
    for k, row in enumerate(rows):
        image = Image.new("RGB", (40, 30), (20 * k, 50, 0))
        image.save(f"mine/{k}.{kind}", **options)
        row["after"] = f"mine/{k}.{kind}"
    after = matching(read_pairs(write(rows), painted, SCHEMA), "Bangs=1").after
    assert (after[:, :, 4, 4] - torch.tensor([[20 * k, 50, 0] for k in range(12)])).abs().max() <= 2


def test_grey_pictures_of_16_bits_are_not_cut_off(rows: Rows) -> None:
    greys = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000
    for row in rows:
        Image.fromarray(greys).save(row["after"] + ".png")
        row["after"] += ".png"
    grey = Painted(KINDS, image_shape=(1, 8, 8))
    after = matching(read_pairs(write(rows), grey, SCHEMA), "Bangs=1").after
    assert after[0, 0].tolist() == (greys // 256).tolist()


Change = Callable[[Rows], Any]


def cell(row: int, **values: Any) -> Change:
    """Changes the table's row, counted as in a spreadsheet."""
    return lambda rows: rows[row - 2].update(values)


def without(name: str) -> Change:
    return lambda rows: [row.pop(name) for row in rows]


def bad_file(contents: bytes) -> Change:
    def change(rows: Rows) -> None:
        Path("bad.png").write_bytes(contents)
        rows[3]["after"] = "bad.png"

    return change


def saved(image: Image.Image, name: str) -> Change:
    def change(rows: Rows) -> None:
        image.save(name)
        rows[3]["after"] = name

    return change


def png_header(width: int, height: int) -> bytes:
    """The beginning of a PNG of that size."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    checked = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    return b"\x89PNG\r\n\x1a\n" + checked + struct.pack(">I", 9) + b"IDAT"


REFUSED: dict[str, tuple[Change, str]] = {
    "no picture": (bad_file(b"Dear diary"), "row 5, column after: bad.png cannot be read as an image"),
    "an empty file": (bad_file(b""), "row 5, column after: bad.png cannot be read"),
    "cut off": (bad_file(png_header(8, 8)), "row 5, column after: bad.png cannot be read"),
    "no file": (cell(6, before="mine/none.png"), "row 6, column before: cannot read mine/none.png"),
    "a folder": (cell(6, before="mine"), "row 6, column before: cannot read mine: "),
    "another format": (saved(Image.new("RGB", (8, 8)), "a.gif"), "row 5, column after: a.gif .*PNG, JPEG, WEBP or BMP"),
    "many pixels": (bad_file(png_header(10_000, 5_001)), "row 5, column after: bad.png has 50,010,000 pixels"),
    "more than PIL warns of": (bad_file(png_header(10_000, 10_000)), "row 5, column after: .*100,000,000 pixels"),
    "more than PIL opens": (
        bad_file(png_header(90_000, 90_000)),
        "row 5, column after: bad.png has more than the 50,000,000 pixels",
    ),
    "its own pair": (cell(4, after="mine/4.png"), "row 4, column after: mine/4.png is the picture before"),
    "twice": (lambda rows: rows.append(rows[1]), "row 14, column after: this pair is in row 3 already"),
    "unknown attribute": (cell(7, do="Bang=1"), "row 7, column do: unknown attribute 'Bang'. Did you mean 'Bangs'"),
    "no intervention": (cell(7, do="Bangs"), "row 7, column do: expected ATTRIBUTE=VALUE"),
    "value out of range": (cell(7, do="size=99"), r"row 7, column do: do\(size=99\) is out of range"),
    "had already": (cell(8, Bangs=1), "row 8, column do: the picture before has Bangs=1 already"),
    "binary is neither": (cell(9, Young=2), "row 9, column Young: Young=2 is out of range. Valid: 0 or 1"),
    "text for a number": (cell(9, size="big"), "row 9, column size: size: 'big' is not a number"),
    "not a number": (cell(9, size="nan"), "row 9, column size: size is not known"),
    "unknown value": (cell(9, colour="blue"), "row 9, column colour: .*'blue'.*Valid: green, red"),
    "empty cell": (cell(10, Young=" "), "row 10, column Young: the cell is empty"),
    "empty do": (cell(10, do=""), "row 10, column do: the cell is empty"),
    "missing column": (without("Young"), "has no column Young: .*its columns are before, after, do, Bangs, size"),
    "missing pictures": (lambda rows: [without(name)(rows) for name in ("before", "do")], "has no column before, do:"),
    "few pairs": (lambda rows: rows.__delitem__(slice(9, None)), "has 9 pairs for Bangs=1: at least 10 are needed"),
    "few of another": (cell(13, do="Bangs=1,Young=0"), "has 1 pair for Bangs=1,Young=0: at least 10"),
}


def refused(path: Path, painted: Painted, message: str) -> None:
    with pytest.raises(UserError, match=message) as refusal:
        read_pairs(path, painted, SCHEMA)
    assert refusal.value.argument == "pairs"
    assert "\n" not in str(refusal.value)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_file_row_and_column(name: str, rows: Rows, painted: Painted) -> None:
    change, message = REFUSED[name]
    change(rows)
    refused(write(rows), painted, f"^pairs.csv.* {message}")


def test_rows_are_counted_as_in_a_spreadsheet(rows: Rows, painted: Painted) -> None:
    """Blank rows count, and a cell of two lines is one row."""
    rows[0]["note"], rows[8]["Young"] = "two\nlines", 5
    path = write([{"note": "", **row} for row in rows])
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:4], ",,,,,,,\n", "\n", *lines[4:]]))
    refused(path, painted, ", row 12, column Young")


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "has no column before, after, do, Bangs, Young, size, colour"),
        (b"before,after,do,Bangs,Young,size,colour\n", "has no pairs"),
        (b"before,after,do,Bangs,Young,size,colour\n\n , ,,,,,\n", "has no pairs"),
        (b"before;after;do;Bangs;Young;size;colour\n", "its columns are before;after;do"),
        (b"before,after,do,Bangs,Young,size,colour,Young\na,b,Bangs=1,0,0,3,red,1\n", "more than one column Young"),
        (b"before,after,do,Bangs,Young,size,colour\na,b,Bangs=1,Young=0,0,0,3,red\n", "row 2: 8 values for 7 columns"),
        (b"before,after,do,Bangs,Young,size,colour\na,b\n", "row 2: 2 values for 7 columns"),
        (b"\x89PNG\r\n\xff\xfe", "is not a text in UTF-8"),
        (b'before,after,do\n"' + b"x" * 200_000, "cannot be read as a table"),
    ],
)
def test_what_is_no_table_is_refused(contents: bytes, message: str, tmp_path: Path, painted: Painted) -> None:
    path = tmp_path / "pairs.csv"
    path.write_bytes(contents)
    refused(path, painted, message)


@pytest.mark.parametrize("name", ["none.csv", "."])
def test_no_file(name: str, tmp_path: Path, painted: Painted) -> None:
    refused(tmp_path / name, painted, "cannot read")


def test_pairs_are_frozen(rows: Rows, painted: Painted) -> None:
    pairs = read_pairs(write(rows), painted, SCHEMA)
    assert isinstance(pairs, OutsidePairs)
    with pytest.raises(AttributeError):
        pairs.interventions = ()  # type: ignore[misc]
