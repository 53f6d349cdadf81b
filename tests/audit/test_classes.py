"""Audits of classifiers of more than two classes: laws of the numbers, the command, the names of classes, what is refused."""

import json

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from cfgen.api import load
from cfgen.audit._classes import calibration_error
from cfgen.audit.answers import COUNTERFACTUAL, RECONSTRUCTION, Picture
from cfgen.audit.questions import EVERYONE
from cfgen.classifiers import ExternalClassifier
from cfgen.commands import audit
from cfgen.errors import UserError
from tests.audit.herd import ANIMALS, Animals, DogOrNot, Herd, Numbered, Probable, herd_run
from tests.audit.shifting import rows
from tests.fakes import SHAPE

DO = ["old=1", "coat=red"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load(herd_run(tmp_path_factory.mktemp("herd") / "run"))


@pytest.fixture(scope="module")
def result(model):
    return model.audit(Animals(), do=DO, among=["coat=grey"], predictor=None, explain=["old"], explain_count=50)


def effects(result, among=EVERYONE):
    return {
        (one.class_name, row.change): row.effect
        for one in result.classifiers
        for row in one.findings
        if row.cohort == among
    }


def test_classes_are_named_by_the_datas_target_and_that_is_said(result):
    assert [one.class_name for one in result.classifiers] == list(ANIMALS)
    assert any(
        "numbered as the values of the data's target animal" in text for text in result.questions.facts["assumed"]
    )


def test_biases_of_all_classes_add_up_to_zero_by_the_model_and_by_real_images(result):
    for among in (EVERYONE, "coat=grey"):
        found = effects(result, among)
        for change in DO:
            for estimate in ("model_only", "real"):
                values = [getattr(found[name, change], estimate) for name in ANIMALS]
                if all(value is not None for value in values):
                    assert sum(value.value for value in values) == pytest.approx(0, abs=1e-6)
    assert abs(effects(result)["hen", "old=1"].model_only.value) > 0.05


def test_the_matrix_of_flips_has_the_images_of_each_class_and_its_margins_are_the_biases(result):
    (classes,) = result.classes
    (model,) = result.questions.models
    base = result.answers["Animals", Picture(RECONSTRUCTION, model=model)].argmax(axis=1)
    for matrix in classes.matrices:
        after = result.answers["Animals", Picture(COUNTERFACTUAL, matrix.change, "end", model)]
        counted = ~np.isnan(after).any(axis=1)
        if matrix.cohort != EVERYONE:
            counted &= herd().columns("test")["coat"].numpy() == 1
        assert matrix.n == counted.sum()
        for k, name in enumerate(ANIMALS):
            assert matrix.counts[k].sum() == (base[counted] == k).sum()
            (one,) = (one for one in result.classifiers if one.class_name == name)
            row = one.finding(matrix.cohort, matrix.change)
            assert matrix.bias[k] == pytest.approx(row.flips["bias"], abs=1e-6)
    records = result.records()["flips"]
    assert len(records) == len(classes.matrices) * 9
    for matrix in classes.matrices:
        mine = [one for one in records if (one["among"], one["change"]) == (matrix.cohort, matrix.change)]
        assert sum(one["share"] for one in mine) == pytest.approx(1)


def herd():
    data = Herd()
    data.setup()
    return data


def test_an_effect_that_is_planted_is_covered_and_judged_right(result):
    """What the very networks say of very many animals, whose attributes are set by hand."""
    for one in result.classifiers:
        row = one.finding(EVERYONE, "old=1")
        assert row.verdict.good, row.verdict
        assert row.effect.combined.holds(true_effect(ANIMALS.index(one.class_name)))
    assert not effects(result)["cat", "coat=red"].model_only.holds(0.2)  # no class looks at the coat
    assert effects(result)["cat", "coat=red"].combined.holds(0.0)


def true_effect(k: int) -> float:
    generator = torch.Generator().manual_seed(3)
    noise = 0.7 * torch.randn(200_000, generator=generator)
    grey = 0.02 + 0.26 * torch.rand(200_000, generator=generator)

    def share(old: float) -> float:
        size = (1.4 + 0.6 * old + noise).clamp(0, 4) / 4
        seen = torch.stack([torch.full_like(size, old), size, grey], dim=1)
        return (Animals().head(seen).argmax(dim=1) == k).float().mean().item()

    return share(1.0) - share(0.0)


def test_two_classes_by_this_way_are_what_a_binary_audit_says(model):
    common = {"do": DO, "predictor": None, "explain": ()}
    plain = model.audit(DogOrNot(), **common)
    both = model.audit(ExternalClassifier(DogOrNot(), classes=["other", "dog"]), focus=["dog"], **common)
    assert not plain.classes
    assert [one.class_name for one in both.classifiers] == ["dog"]
    ours, theirs = plain.records()["bias"], both.records()["bias"]
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        del one["classifier"], other["classifier"]
        np.testing.assert_equal(other, one)


@pytest.mark.parametrize(("network", "output"), [(Probable, "probability"), (Numbered, "class")])
def test_probabilities_and_numbers_of_classes_give_the_flips_of_logits(model, result, network, output):
    classifier = ExternalClassifier(network(), output=output, classes=ANIMALS)
    found = model.audit(classifier, do=DO, predictor=None, explain=())
    for one in found.classes[0].matrices:
        assert np.array_equal(one.counts, result.classes[0].matrix(EVERYONE, one.change).counts)


def write_files(folder):
    """The network, which is linear in pixels, as an ONNX file and as a program of torch.export."""
    linear = nn.Sequential(nn.Flatten(), nn.Linear(784, 3))
    with torch.no_grad():
        nothing = Animals()(torch.zeros(1, *SHAPE))
        linear[1].weight.copy_((Animals()(torch.eye(784).reshape(784, *SHAPE)) - nothing).T)
        linear[1].bias.copy_(nothing[0])
    weights = [numpy_helper.from_array(value.detach().numpy(), name) for name, value in linear[1].named_parameters()]
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("Gemm", ["flat", "weight", "bias"], ["y"], transB=1),
    ]
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *SHAPE])
    graph = helper.make_graph(
        nodes, "it", [image], [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])], weights
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "it.onnx")
    shapes = ({0: torch.export.Dim("n")},)
    torch.export.save(
        torch.export.export(linear.eval(), (torch.rand(2, *SHAPE),), dynamic_shapes=shapes), folder / "it.pt2"
    )


def test_files_of_three_classes_give_the_flips_of_the_module(model, result, tmp_path):
    write_files(tmp_path)
    for name in ("it.onnx", "it.pt2"):
        classifier = ExternalClassifier(tmp_path / name, trusted=True)
        found = model.audit(classifier, do=DO, predictor=None, explain=())
        assert [one.class_name for one in found.classifiers] == list(ANIMALS)
        for one in found.classes[0].matrices:
            apart = np.abs(one.counts - result.classes[0].matrix(EVERYONE, one.change).counts).sum()
            assert apart <= 2  # where two classes are as probable, rounding decides


def test_accuracy_and_calibration_are_by_the_names_of_classes(model):
    def classes(network, **more):
        (found,) = model.audit(ExternalClassifier(network, **more), do=["old=1"], predictor=None, explain=()).classes
        return found

    right, turned = classes(Animals()), classes(Turned(), classes=("hen", "dog", "cat"))
    assert right.accuracy == turned.accuracy
    assert right.calibration == pytest.approx(turned.calibration)
    data = herd()
    said = Animals()(data.images("test").float() / 255).argmax(dim=1)
    assert right.accuracy[0] == pytest.approx((said == data.targets("test")).float().mean().item())
    assert right.accuracy[1] < right.accuracy[0] < right.accuracy[2]
    assert np.isnan(classes(Animals(), classes=("a", "b", "c")).accuracy).all()


class Turned(Animals):
    def forward(self, x):
        return super().forward(x).flip(1)


def test_the_calibration_error_of_who_is_always_sure_is_its_error():
    right = np.arange(100) < 70
    assert calibration_error(np.ones(100), right) == pytest.approx(0.3)


def test_the_command_writes_a_report_with_all_classes(model, here, capsys):
    words = [
        "--model",
        str(model.source),
        "--classifier",
        "tests.audit.herd:Animals",
        "--do",
        "old=1",
        "--do",
        "coat=white",
    ]
    words += ["--predictor", "none", "--accelerator", "cpu", "--trusted", "--explain", "old", "--explain_count", "30"]
    assert audit.main([*words, "--out", "found"]) == 0
    printed = capsys.readouterr().out
    assert {line.split()[1] for line in printed.splitlines() if line.split()[:1] == ["do(old=1)"]} == set(ANIMALS)
    assert "images change their class" in printed
    page = (here / "found/report.html").read_text()
    for text in ("All classes", "most probable of 3 classes (cat, dog, hen)", "calibration error"):
        assert text in page
    assert {"matrix_old=1.png", "matrix_coat=white.png", "flips.csv"} <= {
        path.name for path in (here / "found").iterdir()
    }
    assert len([name for name in (here / "found").iterdir() if name.name.startswith("fairness_do")]) == 1
    assert {row["classifier"] for row in rows(here / "found")} == set(ANIMALS)
    found = json.loads((here / "found/audit.json").read_text())["classes"][0]
    assert np.array(found["flips"][0]["counts"]).shape == (3, 3)
    assert audit.main([*words, "--class", "dog", "--out", "dogs"]) == 0
    assert {row["classifier"] for row in rows(here / "dogs")} == {"dog"}
    alone, beside = (
        next(row for row in rows(here / folder) if row["change"] == "old=1" and row["classifier"] == "dog")
        for folder in ("dogs", "found")
    )
    assert alone == beside
    capsys.readouterr()
    for more, option in ((["--class", "cow"], "class"), (["--classes", "a,b"], "classes"), (["--classes", "a"], "classes"),
                         (["--classes", "a,b,c", "--positive", "1"], "classes"),
                         (["--output", "value"], "output"), (["--label", "owner"], "label")):  # fmt: skip
        assert audit.main([*words, *more, "--out", "refused"]) == 2
        assert capsys.readouterr().err.splitlines()[-1].startswith(f"error: --{option}: ")


def test_two_classifiers_are_compared_class_by_class(model):
    class Smaller(Animals):
        def forward(self, x):
            return super().forward(x) + torch.tensor([0.0, 1.0, 0.0])

    found = model.audit([Animals(), Smaller()], do=["old=1"], predictor=None, explain=())
    assert [(one.classifier, one.against) for one in found.differences] == [
        (f"Smaller, {name}", f"Animals, {name}") for name in ANIMALS
    ]
    assert sum(one.estimate.value for one in found.differences) == pytest.approx(0, abs=0.05)
    assert len(found.classes) == 2


def test_labels_that_may_be_true_at_once_are_no_classes(model):
    for network, settings in (
        (Animals(), {"output": "multilabel", "classes": ANIMALS}),
        (nn.Sequential(Probable(), nn.Softplus()), {"output": "probability"}),
    ):
        with pytest.raises(UserError) as refusal:
            model.audit(ExternalClassifier(network, **settings), do=["old=1"], predictor=None)
        assert refusal.value.argument == "output"
