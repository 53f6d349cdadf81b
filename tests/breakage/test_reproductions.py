"""What once broke, as it was found, by the command line alone; the numbers are those of the table in docs/breakage.md."""

import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from safetensors.torch import load_file, save_file

import cfgen
from cfgen.__main__ import main
from datamodules.sources.celeba_files import ATTRIBUTES

ROOT = Path(cfgen.__file__).parents[1]
PACKAGED = ROOT / "cfgen" / "weights" / "morphomnist-csali"
DO = ["--do", "thickness=3"]
AUDIT = ["audit", "--model", "runs/tiny", "--predictor", "none", *DO, "--explain", "none", "--accelerator", "cpu"]
LONG = "x" * 300
PATIENCE = 300  # seconds; a machine may be busy


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A folder with a config and a run of one epoch; the digits are kept beside it."""
    folder = tmp_path_factory.mktemp("reproductions")
    config = {
        "model": {"class_path": "lightning_modules.CondALI", "init_args": {"width": 0.05, "latent_dim": 4}},
        "data": {"class_path": "datamodules.MorphoMNIST",
                 "init_args": {"limit": 100, "batch_size": 20, "cache_dir": str(folder / "cache")}},
        "trainer": {"max_epochs": 1, "accelerator": "cpu", "enable_progress_bar": False, "enable_model_summary": False,
                    "num_sanity_val_steps": 0},
    }  # fmt: skip
    (folder / "tiny.yaml").write_text(yaml.safe_dump(config))
    (folder / "bright.py").write_text(
        "import pathlib, time, torch\n\n\n"
        "class Bright(torch.nn.Module):\n"
        "    def forward(self, x):\n        return 9 * x.mean((1, 2, 3)) - 1\n\n\n"
        "class Slow(Bright):\n"
        "    def forward(self, x):\n"
        "        self.calls = getattr(self, 'calls', 0) + 1\n        time.sleep(0.3)\n"
        "        if self.calls == 9:  # it is tried on a few images first\n            pathlib.Path('asked').touch()\n"
        "        return super().forward(x)\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("WANDB_MODE", "disabled")
        assert main(["fit", "--config", "tiny.yaml"]) == 0
    return folder


@pytest.fixture(autouse=True)
def place(tmp_path, trained, monkeypatch):
    """The working directory: a copy of the run, and `m`, a model folder as a stranger would send it, without checksums."""
    folder = tmp_path / "place"
    folder.mkdir()
    for name in ("runs", "tiny.yaml", "bright.py"):
        (shutil.copytree if (trained / name).is_dir() else shutil.copy)(trained / name, folder / name)
    shutil.copytree(PACKAGED, folder / "m")
    (folder / "m" / "SHA256SUMS").unlink(missing_ok=True)
    Image.fromarray(np.zeros((28, 28), np.uint8)).save(folder / "x.png")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("CFGEN_DEBUG", raising=False)
    return folder


def ended(words, capsys):
    """The code of a command and what it said on stderr, which is no traceback."""
    try:
        code = main(list(words))
    except SystemExit as end:
        code = end.code
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return code, said


def refused(words, capsys):
    code, said = ended(words, capsys)
    assert code == 2
    assert said.strip().splitlines()[-1].startswith("error: ")
    return said


def started(*words, flags=("-m", "cfgen")):
    return subprocess.Popen([sys.executable, *flags, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def waited_for(path: str, process: subprocess.Popen) -> None:
    end = time.monotonic() + PATIENCE
    while not list(Path().glob(path)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, f"{path} did not come"
        time.sleep(0.05)


def with_data(class_path: str, **options) -> None:
    config = yaml.safe_load(Path("m/config.yaml").read_text())
    config["data"] = {"class_path": class_path, "init_args": options}
    Path("m/config.yaml").write_text(yaml.safe_dump(config))


@pytest.mark.parametrize("class_path", ["os.mkdir", "sys.exit"])
@pytest.mark.parametrize(
    "words",
    ["generate m --do thickness=3 --images x.png --given label=3,intensity=90,slant=0,thickness=2", "evaluate m", "export m out",
     "audit --model m --classifier bright:Bright --do thickness=3"],
)  # fmt: skip
def test_1_a_strangers_config_runs_no_code(capsys, words, class_path):
    with_data(class_path, **({"path": "PWNED"} if class_path == "os.mkdir" else {}))
    refused(words.split(), capsys)
    assert not Path("PWNED").exists()
    assert not Path("out").exists()


def test_2_a_small_jpeg_of_a_very_large_picture(capsys):  # the one that was found took 21 GB
    images = Path("photographs/img_align_celeba")
    images.mkdir(parents=True)
    names = [f"{number:06d}.jpg" for number in range(1, 31)]
    for name in names:
        Image.new("RGB", (178, 218)).save(images / name)
    rows = "".join(f"{name} {' '.join(['1', '-1'][(k + n) % 2] for k in range(40))}\n" for n, name in enumerate(names))
    Path("photographs/list_attr_celeba.txt").write_text(f"{len(names)}\n{' '.join(ATTRIBUTES)}\n{rows}")
    Path("photographs/list_eval_partition.txt").write_text("".join(f"{n} {k % 3}\n" for k, n in enumerate(names)))
    data = bytearray((images / names[3]).read_bytes())
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 9] = (9000).to_bytes(2, "big") * 2
    (images / names[3]).write_bytes(data)
    config = yaml.safe_load(Path("tiny.yaml").read_text())
    config["data"] = {
        "class_path": "datamodules.CelebA",
        "init_args": {"data_dir": "photographs", "cache_dir": "cache"},
    }
    Path("photographs.yaml").write_text(yaml.safe_dump(config))
    assert "pixels" in refused(["fit", "--config", "photographs.yaml"], capsys)


def interrupted(name: str) -> tuple[int, str]:  # by SIGTERM, after the first checkpoint: code, and what was said
    process = started("fit", "--config", "tiny.yaml", "--name", name, "--trainer.max_epochs", "100000")
    waited_for(f"runs/{name}/001/last.ckpt", process)
    process.send_signal(signal.SIGTERM)
    said = "".join(process.communicate(timeout=PATIENCE))
    return process.returncode, said


@pytest.mark.slow
@pytest.mark.parametrize("name", ["A", "A b"])
def test_3_the_printed_words_go_on_with_the_run_that_they_name(capsys, name):
    (command,) = re.findall(r"`cfgen (fit [^`]+)`", interrupted(name)[1])
    shutil.copytree(f"runs/{name}", f"runs/the {name}")
    own, copy = (Path("runs", folder, "001", "last.ckpt") for folder in (name, f"the {name}"))
    before, epoch = own.read_bytes(), torch.load(copy, weights_only=True)["epoch"]
    words = [word.replace(f"runs/{name}", f"runs/the {name}") for word in shlex.split(command)]
    assert ended([*words, "--trainer.max_epochs", str(epoch + 3)], capsys)[0] == 0
    assert own.read_bytes() == before
    assert torch.load(copy, weights_only=True)["epoch"] == epoch + 2


@pytest.mark.slow
def test_4_a_training_that_was_told_to_stop_did_not_succeed():
    assert interrupted("A")[0] == 143


@pytest.mark.slow
def test_6_modules_in_the_working_directory_are_not_run():
    for name in ("rich", "yaml", "safetensors", "PIL", "matplotlib", "lightning_modules"):
        Path(f"{name}.py").write_text(f"open('PWNED-{name}', 'w')\n")
    code = "import sys; from cfgen.__main__ import main; sys.exit(main(sys.argv[1:]))"  # as the script `cfgen` starts
    process = started("generate", "morphomnist-csali", *DO, flags=("-P", "-c", code))
    _, error = process.communicate(timeout=PATIENCE)
    assert not list(Path().glob("PWNED*"))
    assert process.returncode == 0, error


def test_7_an_export_does_not_go_where_a_config_says(capsys, tmp_path):
    config = yaml.safe_load(Path("m/config.yaml").read_text())
    Path("m/config.yaml").write_text(yaml.safe_dump(config | {"name": str(tmp_path / "elsewhere")}))
    refused(["export", "m"], capsys)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.slow
def test_8_a_second_writer_is_refused(capsys):
    process = started("fit", "--config", "tiny.yaml", "--name", "same", "--trainer.max_epochs", "100000")
    try:
        waited_for("runs/same/001/last.ckpt", process)
        said = refused(["fit", "--config", "tiny.yaml", "--name", "same", "--ckpt_path", "last"], capsys)
        assert str(process.pid) in said
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "words",
    ["fit --config tiny.yaml --runs_dir /proc/x", "fit --config tiny.yaml --runs_dir x.png", "export m /proc/x", "export m x.png/x",
     "export m /dev/null/x", "generate m --do thickness=3 --out /proc/x", "generate m --do thickness=3 --out x.png/x"],
)  # fmt: skip
def test_9_where_nothing_can_be_written(capsys, words):
    refused(words.split(), capsys)


@pytest.mark.parametrize("label", [r"$\frac{$", "[/b]"])
def test_10_labels_that_are_markup(capsys, label):
    assert ended([*AUDIT, "--classifier", "bright:Bright", "--label", label, "--out", "found"], capsys)[0] == 0
    assert Path("found/report.html").is_file()


@pytest.mark.slow
def test_11_an_audit_stops_when_it_is_told_to():
    process = started(*AUDIT, "--classifier", "bright:Slow", "--batch_size", "1", "--out", "found")
    waited_for("asked", process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 143
    assert not Path("found").exists()


@pytest.mark.parametrize(
    "words",
    [f"generate {LONG} --do thickness=3", f"generate m --do thickness=3 --images {LONG}.png", f"export {LONG}", f"export m {LONG}",
     f"evaluate {LONG}", f"audit --model {LONG} --classifier bright:Bright --do thickness=3", f"fit --config {LONG}",
     f"audit --model m --classifier {LONG}.onnx --do thickness=3", f"fit --config tiny.yaml --name {LONG}"],
)  # fmt: skip
def test_12_names_that_are_too_long(capsys, words):
    refused(words.split(), capsys)


@pytest.mark.parametrize(
    "words",
    ["generate m --do thickness=3 --index ²", "generate m --do thickness=3 --seed 18446744073709551616", "fit --config x.png",
     "audit --model m --classifier bright:Bright --do=--", "generate m --do thickness=3 --images large.png"],
)  # fmt: skip
def test_13_values_that_are_none(capsys, words):
    if "large" in words:
        Image.new("1", (20_000, 20_000)).save("large.png")
    refused(words.split(), capsys)


NONE_OF_OURS = b"data: {class_path: X}\nmodel: {class_path: X}\n"
REFUSED_BY_IT = b"data: {class_path: datamodules.MorphoMNIST, init_args: {limit: -1}}\nmodel: {class_path: X}\n"


@pytest.mark.parametrize("file", [b"\xff\xfe\x00name", NONE_OF_OURS, REFUSED_BY_IT, b"[]"])
def test_13_files_of_a_model_that_hold_something_else(capsys, file):
    Path("m", "metrics.json" if file == b"[]" else "config.yaml").write_bytes(file)
    refused(["export", "m", "out"], capsys)


def test_14_weights_that_are_not_numbers(capsys):
    weights = load_file("m/model.safetensors")
    name = next(name for name, value in weights.items() if value.is_floating_point())
    weights[name].view(-1)[0] = torch.nan
    save_file(weights, "m/model.safetensors")
    refused(["generate", "m", *DO], capsys)


def test_14_one_bit_of_an_exported_models_weights(capsys):
    assert ended(["export", "runs/tiny", "out"], capsys)[0] == 0
    data = bytearray(Path("out/model.safetensors").read_bytes())
    data[-100] ^= 1
    Path("out/model.safetensors").write_bytes(data)
    refused(
        ["generate", "out", *DO, "--images", "x.png", "--given", "label=3,intensity=90,slant=0,thickness=2"], capsys
    )


@pytest.mark.parametrize(
    "words",
    ["fit --config tiny.yaml --name=_", "fit --config tiny.yaml --name=a\nb", "evaluate runs/tiny --predictor="],
)
def test_14_what_was_taken_without_a_word(capsys, words):
    refused([word.replace("=_", "= ") for word in words.split(" ")], capsys)


def test_16_what_a_killed_writer_left(capsys):
    left = Path("runs/tiny/001/.last.ckpt.0123456789abcdef.part")
    left.write_bytes(b"half")
    assert ended(["fit", "--config", "tiny.yaml", "--ckpt_path", "last", "--trainer.max_epochs", "2"], capsys)[0] == 0
    assert not left.exists()


def test_17_an_interrupt_before_the_first_checkpoint(capsys):
    Path("cutting.py").write_text(
        "import pytorch_lightning as pl\n\n\nclass Cut(pl.Callback):\n"
        "    def on_fit_start(self, trainer, module):\n        raise KeyboardInterrupt\n"
    )
    config = yaml.safe_load(Path("tiny.yaml").read_text())
    config["trainer"]["callbacks"] = [{"class_path": "cutting.Cut"}]
    Path("cut.yaml").write_text(yaml.safe_dump(config))
    code, said = ended(["fit", "--config", "cut.yaml"], capsys)
    assert code == 130
    assert said.strip()
