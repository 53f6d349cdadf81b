"""`cfgen fit --config NAME`: trains what the config says, in a run folder of its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cfgen.command_line import run_command
from cfgen.io.classes import search_working_directory
from cfgen.training.configs import config_title, packaged_configs, packaged_data
from cfgen.training.options import check_options

if TYPE_CHECKING:
    from cfgen.training.run import TrainedRun

HELP = """usage: cfgen fit --config NAME [--config MORE.yaml ...] [--model.KEY VALUE] [--data.KEY VALUE] [--trainer.KEY VALUE]
       cfgen fit --ckpt_path RUN [--trainer.KEY VALUE]      continues an interrupted run

Trains a model or a classifier of the paper, or your own, from a config.  Each run has a folder of its own, RUNS_DIR/NAME/001
and so on, with its config, checkpoints (best.ckpt, last.ckpt), scalars (metrics.csv) and pictures.

options:
  -c, --config NAME      a packaged config (below) or a YAML file; repeat it to merge several: later ones win, and a key
                         written `callbacks+:` appends to a list. Needed, except to continue a run
  --name NAME            name of the run (default: the first config's)
  --runs_dir FOLDER      where the folder NAME/001 is made (default: runs)
  --ckpt_path PATH       the folder of a run, such as runs/quickstart/001: continues it there, with its own config; or a
                         checkpoint to start a new run from; `last` continues the newest run of this name, in its folder
                         (default: none, a run from the start)
  --seed_everything N    seed of all random numbers, 0 or more; `false` sets none (default: 0)
  --timeout_minutes N    on several devices, how long processes wait for one that does not answer (default: 30)
  --model CLASS          another model, e.g. lightning_modules.StyleALI or my_code.MyModel (default: the config's)
  --data NAME            other data: a packaged part (below), a YAML file or a class (default: the config's)
  --model.KEY VALUE      one setting of the model, e.g. --model.width 0.5 (default: the config's, else the class's)
  --data.KEY VALUE       one setting of the data, e.g. --data.batch_size 32, in images per device (likewise)
  --trainer.KEY VALUE    one setting of Lightning's Trainer, e.g. --trainer.max_epochs 5, --trainer.devices 2 (likewise)
  --model.help CLASS     all settings of a class, each with what it does and its default; --data.help CLASS likewise
  --trainer.help         all settings of the Trainer
  --trusted              import classes of your own that earlier runs name, which runs code; those that your config names are
                         imported in any case (default: of earlier runs, classes that come with cfgen alone)
  --print_config         prints the whole resolved config, ready to edit, and stops
  -h, --help             shows this page

examples:
  cfgen fit --config quickstart                           a small model on digits that need no download
  cfgen fit --config quickstart --trainer.max_epochs 5    any value of a config can be set
  cfgen fit --config quickstart --config mine.yaml        a packaged config with changes of your own
  cfgen fit --config celeba_csali --data celeba_young     another data set or causal graph
  cfgen fit --config quickstart --print_config            a config to start from
  cfgen fit --ckpt_path runs/quickstart/001               continues that run, where it was interrupted
  cfgen fit --config quickstart --ckpt_path last          continues the newest run of that name
  cfgen fit --config quickstart --trainer.devices 2       two devices; the batch size is that of one

Some models need an earlier run, named in their config.  It is trained first, on the same data and devices; where it is
finished it is used, and where it was interrupted the same command continues it:

  celeba_styleali ──► celeba_csali ──┐                                 faces_styleali ──► faces_csali
  (all networks)      (encoder only) ├► celeba_fair_classifier
  celeba_classifier ─────────────────┘                                 faces_modulated ──┬► faces_fair_classifier
                                                                       faces_classifier ─┘
"""
TRUSTED = "--trusted"  # no part of a config: it is said anew each time


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "-h" in words or "--help" in words:
        print(help_page())
        return 0
    return run_command(lambda: fit(words))


def fit(words: Sequence[str]) -> TrainedRun:
    """Trains what the command's words say, and prints what is going on."""
    trusted, words = TRUSTED in words, [word for word in words if word != TRUSTED]
    check_options(words)
    search_working_directory()  # for the classes that the user's own config names
    from cfgen.training.run import train_from_words  # only now: importing torch and Lightning takes seconds

    return train_from_words(words, tell=lambda text: print(text, flush=True), trusted=trusted)


def help_page() -> str:
    """How the command is used, with the configs that come with the package."""
    configs = [f"  {name:28s} {config_title(path)}" for name, path in packaged_configs().items()]
    data = [f"  {name:28s} {config_title(path)}" for name, path in packaged_data().items()]
    return "\n".join([f"{HELP}\nconfigs (--config):", *configs, "\ndata (--data):", *data])
