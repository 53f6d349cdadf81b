"""The parsers of what somebody typed."""

from __future__ import annotations

from hypothesis import strategies as st

from cfgen.audit._parse import parse_cohorts, parse_curves, parse_interventions
from cfgen.command_line import parse_assignments
from cfgen.commands import evaluate, generate
from cfgen.counterfactual import asked_of
from cfgen.io.names import require_folder_name
from tests.torture.material import Material
from tests.torture.mutations import words
from tests.torture.parser import Parser, of_assignments, of_words

__all__ = ["TYPED"]


def plan(material: Material, text: str) -> None:
    schema = material.model.schema
    columns = material.data.columns("test")
    for one in parse_interventions(schema, [text]):
        for arm in one.bind(schema, lambda name: 1.0).arms(columns):
            assert asked_of(material.model.module, columns, arm.values).a_c.isfinite().all()


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


def options(material: Material) -> st.SearchStrategy[list[str]]:
    names = st.sampled_from(["--seed", "--index", "--given", "--images", "--out", "--metrics", "--count", "--seeds", "--batch_size",
                             "--split", "--predictor", "--devices", "--values", "--x", "-", "--"])  # fmt: skip
    return st.lists(st.one_of(names, words("test", "0-3", "1")), max_size=5).map(
        lambda many: [word for word in many if word not in ("-h", "--help")]
    )


TYPED: dict[str, Parser] = {
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
}
