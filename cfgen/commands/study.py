"""`cfgen study new|analyse`: makes a human study from a model, and analyses its answers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cfgen.command_line import CommandParser, PositiveInt, Seed, run_command
from cfgen.commands.common import add_model, load_finished
from cfgen.errors import UserError, unknown_name
from cfgen.io.classes import TRUSTED_HELP, search_working_directory
from cfgen.io.writing import require_free
from cfgen.options import add_options, from_command_line
from cfgen.study.options import StudyOptions

if TYPE_CHECKING:
    from cfgen.study.analysis import Analysis, ShareOf
    from cfgen.study.design import Study

__all__ = ["main"]

EXAMPLES = """
  cfgen study new morphomnist-hvae --do thickness=5 --do label=7 --out studies/digits
  cfgen study analyse studies/digits --simulate guessing --power 66    what an analysis looks like, before there are answers
  cfgen study analyse studies/digits answers/                          with the files that participants sent
"""


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    task = TASKS.get(words[0]) if words else None
    if task is not None:
        run, positional = task
        return run_command(lambda: run(words[1:]), positional=positional)
    return run_command(lambda: without_task(words), positional=["task"])


def without_task(words: Sequence[str]) -> None:
    """Help, or a refusal."""
    task = parser().parse_args(words[:1]).task
    raise UserError(unknown_name("task", task, TASKS), argument="task")


def parser() -> CommandParser:
    parser = CommandParser(
        "study",
        "The human study of the paper's Appendix L: participants see pairs of pictures, a reconstruction and a counterfactual,\n"
        "and say which one was edited.\n\n"
        "  cfgen study new MODEL       makes a study: a page for participants, and the rules that are fixed beforehand\n"
        "  cfgen study analyse STUDY   analyses the answers\n\n"
        "`cfgen study new --help` and `cfgen study analyse --help` show the options.",
        EXAMPLES,
    )
    parser.add("task", metavar="TASK", help="new or analyse")
    return parser


def new_parser() -> CommandParser:
    parser = CommandParser(
        "study new",
        "Makes a study from a model.  FOLDER/page is what participants get: put it on any web host, send it as a zip, or start\n"
        "`cfgen app` where FOLDER is studies/NAME.  FOLDER/study.json has the right answers: keep it to yourself.",
        EXAMPLES.splitlines()[1],
    )
    add_model(parser)
    parser.add("--out", type=str, required=True, metavar="FOLDER", help="the new folder, such as studies/digits")
    parser.add("--trusted", action="store_true", help=TRUSTED_HELP)
    add_options(parser, StudyOptions)
    return parser


def new(words: Sequence[str]) -> None:
    chosen = new_parser().parse_args(words)
    if chosen.trusted:
        search_working_directory()
    options = from_command_line(StudyOptions, chosen)
    require_free(chosen.out)

    from cfgen.study.making import new_study  # only now: importing torch and Lightning takes seconds

    made = new_study(load_finished(chosen.model, chosen.trusted), **options)
    told(made.study, made.save(chosen.out))


def told(study: Study, folder: Path) -> None:
    """What was made, and what to do with it."""
    main_trials = [trial for trial in study.trials if trial.role == "main"]
    per_sheet = len(study.sheets[0])
    print(
        f"{len(main_trials)} pairs from {study.images_from}; a participant answers {per_sheet} questions (seed {study.seed})"
    )
    print(f"study: {folder}")
    print(
        f"page: {folder / 'page' / 'index.html'}   (for participants; study.json has the right answers and stays with you)"
    )
    print(f"hash: {study.hash}   (register it with your plan: it covers questions, pictures, rules and margin)")
    if "[" in study.consent:
        print(
            f"consent: [brackets] are to be filled in: edit {folder / 'consent.txt'}, and make the study anew with --consent"
        )


def analyse_parser() -> CommandParser:
    parser = CommandParser(
        "study analyse",
        "Analyses the answers to a study: the score as the paper reports it, the share of right answers with confidence\n"
        "intervals, tests against guessing and for equivalence with it, by question and intervention.  Participants are\n"
        "excluded by the rules that the study fixed beforehand.  Writes STUDY/analyses/NNN: JSON, CSV and a figure.",
        "\n".join(EXAMPLES.splitlines()[2:]),
    )
    add = parser.add
    add(
        "study",
        metavar="STUDY",
        help="the folder that `cfgen study new` wrote; answers that `cfgen app` kept are in it",
    )
    add("answers", nargs="*", metavar="ANSWERS", help="files that participants sent (.jsonl), or folders of such files")
    add("--simulate", type=str, metavar="MIX",
        help="analyse simulated participants instead: guessing, perfect or careless (66 of them, as in the paper), or so many of "
        "each: guessing=50,careless=10")  # fmt: skip
    add(
        "--power",
        type=PositiveInt,
        metavar="N",
        help="also compute the power of a study with N participants that count",
    )
    add("--seed", type=Seed, metavar="N", help="seed of simulated participants and of the power (default: 0)")
    add("--out", type=str, metavar="DIR", help="the new folder for the results (default: STUDY/analyses/NNN)")
    return parser


def analyse(words: Sequence[str]) -> None:
    options = analyse_parser().parse_args(words)
    from cfgen.study.simulation import parse_mix

    mix = None if options.simulate is None else parse_mix(options.simulate)
    if options.seed is not None and mix is None and options.power is None:
        raise UserError("only simulations use it; add --simulate or --power, or leave it out", argument="seed")
    if options.out:
        require_free(options.out)

    from cfgen.study.analysis import analyse as analysed  # only now: scipy and matplotlib take a second

    found = analysed(options.study, options.answers, simulate=mix, planned=options.power, seed=options.seed or 0)
    folder = found.save(options.out, root=options.study)
    show(found)
    print(f"analysis: {folder}")


def show(found: Analysis) -> None:
    """Prints who counts, what was found and what the tests say."""
    rules = found.study.rules
    everybody, left_out = len(found.participants), sum(found.excluded.values())
    if found.simulated is not None:
        print(f"SIMULATED: {', '.join(f'{count} {kind}' for kind, count in found.simulated.items())}")
    reasons = "; ".join(f"{reason}: {count}" for reason, count in sorted(found.excluded.items()))
    print(f"{everybody} participants, {left_out} excluded{f' ({reasons})' if reasons else ''}")
    if found.duplicates:
        print(f"{found.duplicates} lines came twice and count once")
    if found.unreadable:
        print(f"{len(found.unreadable)} lines cannot be read, the first: {found.unreadable[0]}")
    for result in found.results:
        paper = " (paper: 5.15 of 10, s.d. 1.64, 66 responses)" if result.question == "edited" else ""
        score = f"{result.mean:.2f} of {result.each} right, s.d. {result.deviation:.2f}, {len(result.scores)} responses"
        print(f"\n{result.question}: {score}{paper}")
        print(f"  share of right answers  {in_words(result.correct)}")
        print(f"  against guessing        p = {result.clustered_p:.3g} clustered, {result.exact_p:.3g} exact binomial")
        print(f"  equivalence             p = {result.equivalence_p:.3g} (TOST, within 0.5 +- {rules.margin:g})")
        print(f"  verdict                 {result.verdict} (level {rules.level:g})")
        for kind, called in result.called_same.items():
            print(f"  called the same         {in_words(called)}; {kind} shown")
    for one in found.power:
        print(f"\npower with {one.participants} participants, whose own shares have s.d. {one.spread:g}:")
        print(f"  {one.detects:.2f} to tell {0.5 + rules.margin:g} from guessing")
        print(f"  {one.equivalent:.2f} to show equivalence where all guess on average")


def in_words(one: ShareOf) -> str:
    (low, high), (wilson_low, wilson_high) = one.clustered, one.wilson
    return f"{one.share:.3f}, 95 % {low:.3f} to {high:.3f} clustered, {wilson_low:.3f} to {wilson_high:.3f} Wilson"


TASKS: dict[str, tuple[Callable[[Sequence[str]], None], list[str]]] = {
    "new": (new, ["model"]),
    "analyse": (analyse, ["study", "answers"]),
}
