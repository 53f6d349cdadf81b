"""What commands say when they refuse, word for word: the one place where wording is held.

Everywhere else a test checks that a command refuses and which argument it names.  Each line says what is wrong, what was
expected and what to do.
"""

import shlex

import pytest

from cfgen.__main__ import main

SAID = {
    "generat x": "unknown command 'generat'. Did you mean 'generate'? Valid: app, audit, calibrate, data, evaluate, export, fit, generate, quickstart, study, verify",
    "generate": "MODEL, --do are missing; `cfgen generate --help` explains the options",
    "generate nope --do label=1": "there is no run, checkpoint or exported model at nope (runs here: none), and unknown packaged model 'nope'. Valid: faces-csali, faces-hvae, faces-modulated, morphomnist-csali, morphomnist-hvae",
    "generate morphomnist-csali --doo label=1": "there is no option --doo. Did you mean --do? Valid: --do, --given, --help, --hold, --images, --index, --out, --seed, --trusted",
    "generate morphomnist-csali --do thicknes=3": "--do: unknown attribute 'thicknes'. Did you mean 'thickness'? Valid: intensity, label, slant, thickness",
    "generate morphomnist-csali --do thickness=99": "--do: do(thickness=99) is out of range. Valid: 0.876 to 6.256",
    "generate morphomnist-csali --do label=12": "--do: do(label): unknown value '12'. Did you mean '2'? Valid: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9",
    "generate morphomnist-csali --do label": "--do: expected ATTRIBUTE=VALUE, not 'label'",
    "generate morphomnist-csali --do label=1,label=2": "--do: label is set twice in 'label=1,label=2'",
    "generate morphomnist-csali --do label=1 --index 90": "--index: there are 16 examples that come with the model, numbered 0 to 15",
    "generate morphomnist-csali --do label=1 --index a": "--index: expected numbers and ranges like 0-9 or 1,5,7, not 'a'",
    "generate morphomnist-csali --do label=1 --given label=2": "--given: only pictures of your own (images) need it; the attributes of the model's images are known",
    "data morpho_mnits": "DATA: there is no folder or config morpho_mnits, and unknown data set 'morpho_mnits'. Did you mean 'morpho_mnist'? Valid: celeba, celeba_young, faces, image_table, morpho_mnist, morpho_mnist_published",
    "data faces --limit 100": "--limit: datamodules.Faces has no such option. Valid: count, cache_dir, batch_size, seed, attributes, edges, mechanisms, image_size, flip",
    "generate morphomnist-csali --do label=1 --seed -1": "--seed: expected a whole number from 0 to 2^63 - 1, not '-1'",
    "data morpho_mnist --limit 0": "--limit: expected a whole number of 1 or more, not '0'",
    "evaluate morphomnist-csali --count 0": "--count: expected a whole number of 1 or more, not '0'",
    "evaluate morphomnist-csali --split tset": "--split: expected one of test, val, not 'tset'",
    "evaluate morphomnist-csali --metrics cycle": "--metrics: unknown metric 'cycle'. Did you mean 'cycles'? Valid: bias, commutativity, cycles, effectiveness, fid, identity, labels, minimality, reversibility, truth",
    "evaluate faces-hvae --identity insightface": "--identity: expected one of dlib, not 'insightface'",
    "audit --model faces-modulated": "--classifier is missing; `cfgen audit --help` explains the options",
    "audit --model faces-modulated --classifier x": "--do: it is missing; give an intervention, such as Young=0",
    "audit --model faces-modulated --classifier tests.audit.shifting:Reddish --do Bangs=1 --hold Smiling": "--hold: no intervention changes Smiling, so there is nothing to hold; by the causal graph they change nothing",
    "audit --model faces-modulated --classifier nope --do Bangs=1": "--classifier: there is no classifier at nope; give a cfgen run or its .ckpt file, MODULE:FUNCTION that returns an nn.Module, an ONNX file (.onnx), or a program saved by torch.export (.pt2)",
    "audit --model faces-modulated --classifier x --do Bangs=2": "--do: do(Bangs=2) is out of range. Valid: 0 or 1",
    "audit --model faces-modulated --classifier x --do Bangs=1 --threshold 2": "--threshold: expected a number between 0 and 1, not '2'",
    "audit --model faces-modulated --classifier x --do Bangs=1 --output prob": "--output: expected one of logit, multilabel, probability, class, value, not 'prob'",
    "fit --config quickstart --data.limt 3": "--data.limt: unknown option of MorphoMNIST 'limt'. Did you mean 'limit'? Valid: attributes, batch_size, cache_dir, data_dir, edges, independent_slant, limit, mechanisms, seed, source",
    "fit --config quickstart --trainer.max_epochs many": "--trainer.max_epochs: expected a whole number, not 'many'",
    "fit --config quickstart --ckpt_path nope.ckpt": "--ckpt_path: there is no run folder or checkpoint nope.ckpt: give one, or 'last' for the newest run's",
    "generate morphomnist-csali --do label=1 --images nope.png --given label=2": "--images: cannot read nope.png: No such file or directory",
    "verify nope": "MODEL: there is no run, checkpoint or exported model at nope (runs here: none), and unknown packaged model 'nope'. Valid: faces-csali, faces-hvae, faces-modulated, morphomnist-csali, morphomnist-hvae",
    "fit --config quickstart --name ' '": "--name: expected a value, and nothing is given; null stands for none",
    "fit --config quickstart --name 'a\nb'": r"--name: 'a\nb' is not the name of a folder",
    "fit --config quickstart --timeout_minutes 0": "--timeout_minutes: expected minutes above 0 and below a million, not 0",
    "evaluate morphomnist-csali --predictor=": "--predictor: expected a value, and nothing is given",
    "fit --config quickstart --name a/b": "--name: 'a/b' is not the name of a folder",
    "fit --config faces_ali --data.image_size 30": "images are 30x30 pixels, and cfgen's networks take square images of 16 to 256 pixels a side, in multiples of 4; let the data resize them to 28 or 32",
    "fit --config faces_ali --model.generator modul": "--model.generator: unknown generator 'modul'. Did you mean 'modulated'? Valid: modulated, paper, plain",
}


@pytest.mark.parametrize("line", SAID)
def test_what_is_said(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(line)) == 2
    lines = [text for text in capsys.readouterr().err.splitlines() if text.startswith("error: ")]
    assert lines == [f"error: {SAID[line]}"]
    assert not list(tmp_path.iterdir())  # a refusal leaves nothing behind
