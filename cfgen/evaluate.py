"""`python -m cfgen.evaluate MODEL [MODEL ...]`: scores trained models on their test split, and compares several."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfgen.command_line import CommandParser, PositiveInt, Seed, run_command
from cfgen.errors import UserError
from cfgen.evaluation.metrics import metric_names
from cfgen.evaluation.options import FACE_NETWORKS, SPLITS, Options
from cfgen.io.classes import TRUSTED_HELP, search_working_directory
from cfgen.io.writing import require_free

if TYPE_CHECKING:
    from cfgen.evaluation.results import Evaluation

EXAMPLES = """
  cfgen evaluate runs/quickstart                                              scores and figures, into the run's folder
  cfgen evaluate morphomnist-csali --classifier runs/morphomnist_classifier --predictor runs/morphomnist_judge
  cfgen evaluate runs/faces_ali runs/faces_styleali runs/faces_csali --fid inception       and a comparison of the three
"""


def parser() -> CommandParser:
    parser = CommandParser(
        "evaluate",
        "Scores trained models on their test split: effectiveness (Table 1), reconstruction and FID (Table 2), composition,\n"
        "reversibility, commutativity and minimality, and the distance from the ground truth where it is known.  Writes\n"
        "metrics.json, a CSV and figures into each model's folder (for a model that comes with cfgen: runs/NAME); several\n"
        "models also give a comparison.  The images are those of the model's data; for Morpho-MNIST as published and CelebA\n"
        "the environment variable CFGEN_DATA names their folder.",
        EXAMPLES,
    )
    add = parser.add
    add("model", nargs="+", metavar="MODEL",
        help="a run folder (runs/NAME or runs/NAME/001), a checkpoint, an exported folder, or the name of a model that comes "
        "with cfgen; several are compared")  # fmt: skip
    add("--classifier", metavar="RUN",
        help="a classifier's run. A digit classifier checks label counterfactuals (Appendix G); for a yes/no classifier the "
        "bias under every binary attribute is measured (Eq. 5) (default: none; the judges then check labels)")  # fmt: skip
    add("--predictor", action="append", type=str, metavar="RUN",
        help="a judge: a predictor's run, which reads the attributes of counterfactuals; repeat it for several, whose mean and "
        "range are shown; none leaves these scores out (default: the judges that come with cfgen, where they know the model's "
        "data)")  # fmt: skip
    add("--fid", metavar="NETWORK",
        help="also the FID of generated images, by the features of inception, efficientnet_lite0 or module:callable "
        "(default: no FID)")  # fmt: skip
    add("--identity", choices=FACE_NETWORKS,
        help="also whether counterfactuals of photographs are still the same person, by dlib's face recognition network; needs "
        "data that says who is in a photograph, as CelebA does, and takes long where there are many attributes: set --count "
        "(default: not measured)")  # fmt: skip
    add("--metrics", metavar="NAME[,...]",
        help=f"only these, of {', '.join(metric_names())} (default: all that apply). cycles are reconstruction error and "
        "composition; bias needs --classifier, labels that or judges, fid needs --fid, identity needs --identity, truth needs "
        "data with known counterfactuals; commutativity, minimality and reversibility take long where there are many "
        "attributes")  # fmt: skip
    add("--split", choices=SPLITS, default="test", help="the split to score on: val while you choose settings")
    add("--count", type=PositiveInt, metavar="N", help="the first N images of the split (default: all)")
    add("--seed", type=Seed, default=0, help="seed of the target values and of all noise")
    add("--seeds", type=PositiveInt, default=1, metavar="N",
        help="repeats everything with N seeds from --seed on; scores are then means, with errors over seeds")  # fmt: skip
    add("--values", type=PositiveInt, default=1, metavar="N",
        help="number of random target values for each image and measured attribute; the paper has 100")  # fmt: skip
    add("--batch_size", type=PositiveInt, metavar="N",
        help="images at a time; no score depends on it (default: 250 of 28x28 pixels, 64 of 64x64)")  # fmt: skip
    add("--trusted", action="store_true", help=TRUSTED_HELP)
    add("--accelerator", default="auto", help="cpu, gpu, mps or auto, as Lightning has it")
    add("--devices", default="1", metavar="N",
        help="how many devices, or processes on a CPU, share the images; the scores are those of one")  # fmt: skip
    add("--out", metavar="DIR",
        help="a new folder for the comparison of several models (default: the next free comparisons/NNN)")  # fmt: skip
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: command(arguments), positional=["model", "models"])


def command(arguments: Sequence[str] | None) -> None:
    chosen = parser().parse_args(arguments)
    names = (
        "classifier",
        "predictor",
        "fid",
        "identity",
        "split",
        "count",
        "seed",
        "seeds",
        "values",
        "batch_size",
        "trusted",
    )
    options: dict[str, Any] = {name: chosen[name] for name in names}
    options["metrics"] = chosen.metrics.split(",") if chosen.metrics else None
    Options(**options)  # refuses what can be refused before anything heavy is imported
    several = len(chosen.model) > 1
    if chosen.out and not several:
        raise UserError("it is for the comparison of several models; one model's results go into its own folder", "out")
    if chosen.out:
        require_free(chosen.out)
    if chosen.trusted or ":" in (chosen.fid or ""):
        search_working_directory()

    from cfgen.evaluation import compare, evaluate  # only now: importing torch and Lightning takes seconds
    from cfgen.processes import Processes

    processes = Processes(chosen.accelerator, chosen.devices)
    options |= {"processes": processes, "progress": True}

    def report(evaluation: Evaluation) -> None:
        if processes.first:
            from cfgen.evaluation.terminal import show

            show(evaluation)
            tell(evaluation.save())

    if not several:
        report(evaluate(chosen.model[0], **options))
        return
    comparison = compare(chosen.model, each=report, **options)
    if processes.first:
        tell(comparison.save(chosen.out))


def tell(paths: Sequence[Path]) -> None:
    """Says which files were written."""
    print(f"wrote {', '.join(path.name for path in paths)} into {paths[0].parent}")


if __name__ == "__main__":
    sys.exit(main())
