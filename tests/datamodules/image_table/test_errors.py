"""What is wrong with a folder, by its file, row and column, and what to do about it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cfgen.errors import UserError
from datamodules import ImageTable
from datamodules.image_table import TableError
from tests.datamodules.image_folder import Made, Record, table_of, write_table


def change(column: str, row: int, value: object) -> Callable[[list[Record]], None]:
    def spoil(records: list[Record]) -> None:
        records[row][column] = value

    return spoil


def change_all(column: str, value: Callable[[int], object]) -> Callable[[list[Record]], None]:
    def spoil(records: list[Record]) -> None:
        for number, record in enumerate(records):
            record[column] = value(number)

    return spoil


WRONG: list[tuple[str, Callable[[list[Record]], None], str]] = [
    ("missing picture", change("file_name", 4, "bilder größe/nobody.png"), "row 6, column file_name: there is no picture 'bilder größe/nobody.png'"),
    ("another case", change("file_name", 4, "bilder größe/BILD Ä 004.png"), "row 6, .*there is 'bilder größe/bild ä 004.png', and names tell capital letters"),
    ("no picture", change("file_name", 4, ""), "row 6, column file_name: no picture is named"),
    ("outside", change("file_name", 4, "../secret.png"), "row 6, column file_name: '../secret.png' leads out of the folder"),
    ("NaN", change("size", 7, "NaN"), "row 9, column size: no value"),
    ("empty", change("hair colour", 7, ""), "row 9, column hair_colour: no value"),
    ("no number", change("size", 7, "large"), "row 9, column size: 'large' is not a number"),
    ("decimal comma", change("size", 7, "5,25"), "row 9, column size: '5,25' is not a number; write it with a point"),
    ("constant", change_all("constant", lambda number: 3), "column constant: every training row has 3: leave the column out"),
    ("rare", change("hair colour", 0, "pink"), "row 2, column hair_colour: only 1 training rows have 'pink', fewer than 20"),
    ("a slip", change("hair colour", 0, "gren"), "row 2, column hair_colour: only 1 training rows have 'gren', fewer than 20 .did you mean 'green'.."),
    ("identifier", change_all("id", lambda number: f"patient {number}"), "column id: 150 different texts in 150 rows: it is no attribute"),
    ("split", change_all("split", lambda number: "train" if number else "first"), "row 2, column split: train, val or test is expected, not 'first'"),
    ("comma", change_all("hair colour", lambda number: ["red, dark", "green"][number % 2]), "row 2, column hair_colour: commands cannot name the value 'red, dark'"),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "message"), [one[1:] for one in WRONG], ids=[one[0] for one in WRONG])
def test_errors_name_file_row_and_column(
    made: Made, packs: Path, spoil: Callable[[list[Record]], None], message: str
) -> None:
    folder, records = made
    spoil(records)
    if "split" not in records[0]:
        for number, record in enumerate(records):  # row 2 and its like train
            record["split"] = ["train", "train", "train", "val", "test"][number // 3 % 5]
    write_table(folder, records)
    with pytest.raises(TableError, match=f"{folder / 'metadata.csv'}, {message}") as caught:
        table_of(folder, packs).scm_spec  # noqa: B018
    assert "\n" not in str(caught.value)
    finding = caught.value.findings[0]
    assert (finding.severity, finding.file) == ("error", str(folder / "metadata.csv"))
    assert str(finding) in str(caught.value)


def test_a_value_that_training_does_not_have(made: Made, packs: Path) -> None:
    folder, records = made
    for number, record in enumerate(records):
        record["split"] = ["train", "train", "train", "val", "test"][number // 3 % 5]
    records[12]["hair colour"] = "pink"
    write_table(folder, records)
    with pytest.raises(TableError, match="row 14, column hair_colour: no training row has 'pink'"):
        table_of(folder, packs).scm_spec  # noqa: B018


def test_a_rare_value_is_kept_where_the_user_says_so(made: Made, packs: Path) -> None:
    folder, records = made
    for record in [record for record in records if record["hair colour"] == "red"][:40]:
        record["hair colour"] = "green"
    write_table(folder, records)
    with pytest.raises(TableError, match="have 'red', fewer than 20: .*say the column's kind in attributes.yaml"):
        table_of(folder, packs).scm_spec  # noqa: B018
    data = table_of(folder, packs, attributes={"hair colour": {"kind": "categorical"}})
    assert data.scm_spec["attributes"]["hair_colour"]["values"] == ["blau", "green", "red"]
    (finding,) = data.findings
    assert (finding.severity, finding.column) == ("warning", "hair_colour")


def test_all_errors_are_collected(made: Made, packs: Path) -> None:
    folder, records = made
    records[3]["size"] = records[5]["round"] = ""
    write_table(folder, records)
    with pytest.raises(TableError, match=r"\(and 1 more, which cfgen data lists\)") as caught:
        table_of(folder, packs).scm_spec  # noqa: B018
    assert [(one.row, one.column) for one in caught.value.findings] == [(5, "size"), (7, "round")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "size", "attributes": ["size", "round"]}, "column size: it is the target and also an attribute"),
        ({"target": "nose"}, "target: unknown column 'nose'.*Valid: extent, hair_colour, round, size"),
        ({"leave_out": ["hair", "size"]}, "leave_out: unknown column 'hair'. Did you mean 'hair_colour'"),
        ({"attributes": ["siz"]}, "unknown column 'siz'. Did you mean 'size'"),
        ({"attributes": {"size": {"kind": "contiguous"}}}, "unknown kind 'contiguous'"),
        ({"attributes": {"size": {"lo": 3}}}, "unknown key 'lo'"),
        ({"attributes": {"hair colour": {"kind": "categorical", "values": 4}}}, "a list of values"),
        ({"attributes": {"size": {"low": 3}}}, "both low and high"),
        ({"attributes": {"round": {"low": 3, "high": 4, "kind": "binary"}}}, "no low and high"),
        ({"attributes": {"hair colour": {"values": ["red", "green"]}}}, "'blau' is not one of red, green"),
        ({"attributes": "size"}, "expected names"),
        ({"edges": [["round", "sise"]]}, "unknown attribute 'sise'. Did you mean 'size'"),
        ({"edges": [["round", "size"], ["size", "round"]]}, "cycle"),
        ({"edges": ["round", "size"]}, "cause, effect"),
        ({"edges": [["round"]]}, "cause, effect"),
        ({"channels": 4}, "1 .grey. or 3"),
        ({"framing": "squeeze"}, "crop or pad"),
        ({"image_size": 0}, "image_size|pixels"),
    ],
)  # fmt: skip
def test_wrong_options(original: Made, packs: Path, options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        table_of(original[0], packs, **options).scm_spec  # noqa: B018


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("size: 3\n", "attributes.yaml: unknown key 'size'"),
        ("target: 3\n", "attributes.yaml: target: expected the name of a column"),
        ("[", "attributes.yaml cannot be read as YAML"),
        ("edges: [[round, shade]]\n", "unknown attribute 'shade'"),
    ],
)
def test_wrong_attributes_yaml(made: Made, packs: Path, text: str, message: str) -> None:
    (made[0] / "attributes.yaml").write_text(text)
    with pytest.raises((UserError, ValueError), match=message):
        table_of(made[0], packs).scm_spec  # noqa: B018


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("metadata.csv", b"name,size\n1.png,3\n", "has no column file_name: it has name, size"),
        ("metadata.csv", b"file_name;size\n1.png;3\n", "separated by ';'; save it with commas"),
        ("metadata.csv", b"file_name,size\n1.png,3,4,5\n", "cannot be read as a table"),
        ("metadata.csv", b"file_name,size\n", "has no rows"),
        ("metadata.csv", b"", "cannot be read as a table"),
        ("metadata.csv", "file_name,größe\n".encode("latin-1"), "not a text in UTF-8"),
        ("metadata.jsonl", b'{"file_name": "1.png"}\n[1]\n', "row 2: a JSON object is expected"),
        ("metadata.parquet", b"PAR1 and then nothing", "cannot be read as Parquet"),
    ],
)
def test_broken_tables(tmp_path: Path, packs: Path, file: str, content: bytes, message: str) -> None:
    (tmp_path / file).write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        table_of(tmp_path, packs).scm_spec  # noqa: B018
    assert str(tmp_path / file) in str(caught.value)


def test_no_folder(tmp_path: Path, packs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CFGEN_DATA", raising=False)
    with pytest.raises(UserError, match="give data_dir or set the variable CFGEN_DATA"):
        ImageTable().scm_spec  # noqa: B018
    with pytest.raises(UserError, match=f"no folder {tmp_path / 'nowhere'}"):
        table_of(tmp_path / "nowhere", packs).scm_spec  # noqa: B018
    with pytest.raises(UserError, match=r"has no metadata.csv, metadata.jsonl or metadata.parquet"):
        table_of(tmp_path, packs).scm_spec  # noqa: B018
