"""The page "Audit": audits that are asked for, that run and that were made; the same reports as those of `cfgen audit`."""

from __future__ import annotations

import itertools
import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cfgen.app.catalogue import Catalogue
from cfgen.app.queueing import FairWorker
from cfgen.attributes import Columns
from cfgen.audit import AuditOptions, audit, write_report
from cfgen.classifiers import ExternalClassifier
from cfgen.effects import Value
from cfgen.errors import UserError
from cfgen.interventions import parse_intervention
from cfgen.io.files import read_json
from cfgen.options import as_words, web_fields
from cfgen.reporting.files import new_results
from cfgen.runs.data import results_folder
from cfgen.runs.folders import runs_of
from cfgen.runs.model import TrainedModel

__all__ = ["AuditJob", "Audits", "Earlier", "counted", "earlier_audits"]

FOLDER = "audits"
MOST_INTERVENTIONS, MOST_CLASSIFIERS, MOST_CLASSES, MOST_IMAGES = 20, 4, 1000, 20_000
BATCH = 20  # images between two looks at whether somebody waits or the audit was cancelled; the numbers stay the same
GIVES_WAY = 5.0  # seconds that an audit lets sliders go first, at most, before its next batch
MOST_WAITING = 20
KEPT = 200  # audits of this session that are remembered


class Cancelled(Exception):
    """The user does not want the audit any more."""


@dataclass
class AuditJob:
    """An audit of this session, from the request to its report."""

    id: str
    model: str
    classifiers: list[str]
    options: AuditOptions
    state: str = "waiting"  # then running, and at last done, failed or cancelled
    task: str = ""
    done: int = 0
    total: int = 0
    message: str = ""
    report: str = ""  # the id of the report, once there is one
    started: float = field(default_factory=time.monotonic)
    cancelled: threading.Event = field(default_factory=threading.Event, repr=False)

    def command(self, further: Sequence[str]) -> str:
        """The same audit on the command line."""
        words = ["cfgen", "audit", "--model", self.model]
        words += [word for name in self.classifiers for word in ("--classifier", name)]
        return shlex.join([*words, *as_words(self.options), *further])

    def to_dict(self) -> dict[str, Any]:
        shown = ("id", "model", "classifiers", "state", "task", "done", "total", "message", "report")
        asked = {name: value for name, value in self.options.to_dict().items() if name in web_fields(AuditOptions)}
        return {name: getattr(self, name) for name in shown} | asked | {"subgroups": bool(asked["subgroups"])}


@dataclass(frozen=True)
class Earlier:
    """An audit that has a report: its id in lists, its folder, and what it found."""

    id: str
    model: str
    folder: Path

    def found(self) -> dict[str, Any]:
        return read_json(self.folder / "audit.json")

    def command(self) -> str | None:
        """The command that made it; older audits have it in audit.json."""
        try:
            return read_json(self.folder / "provenance.json").get("command")
        except UserError:
            return self.found().get("command")


def earlier_audits(models: Sequence[str]) -> dict[str, Earlier]:
    """The audits of these models that were finished, by `cfgen audit` or here, the newest first."""
    found = []
    for model in models:
        try:
            root = results_folder(model)
        except UserError:  # deleted meanwhile
            continue
        found += [
            Earlier(f"{model}#{run.name}", model, run)
            for run in runs_of(root, FOLDER)
            if (run / "report.html").is_file() and (run / "audit.json").is_file()
        ]
    found.sort(key=lambda one: (one.folder / "report.html").stat().st_mtime, reverse=True)
    return {one.id: one for one in found}


def counted(model: TrainedModel, columns: Mapping[str, Columns], do: Sequence[str]) -> list[dict[str, Any]]:
    """How many test images each intervention changes, and in words why not all; `columns` are by split."""
    if not do:
        raise UserError("expected at least one intervention, such as Young=0", argument="do")
    found = []
    for text in do:
        one = parse_intervention(text).bind(
            model.schema, lambda name: float(columns["train"][name].double().std(correction=0))
        )
        number = int(one.target(columns["test"]).sum())
        found.append({"do": text, "asked": number, "told": one.coverage(columns["test"], "test images")})
    return found


def _texts(asked: Mapping[str, Any], name: str, most: int, *, argument: str, optional: bool = False) -> list[str]:
    """A list of texts that a page sent."""
    found = asked.get(name, [] if optional else None)
    if not isinstance(found, list) or not (found or optional) or not all(isinstance(one, str) for one in found):
        raise UserError(f"choose at least one {'intervention' if argument == 'do' else argument}", argument=argument)
    if len(found) > most:
        raise UserError(f"choose at most {most} at once", argument=argument)
    return found


class Audits:
    """The audits of this session: one runs at a time and lets sliders go first, the others wait."""

    def __init__(
        self,
        catalogue: Catalogue,
        load: Callable[[str], TrainedModel],
        sliders: FairWorker,
        inputs: Sequence[str],
    ) -> None:
        self.catalogue, self.load, self.sliders, self.inputs = catalogue, load, sliders, inputs
        self.worker = FairWorker("audits")
        self.jobs: dict[str, AuditJob] = {}
        self._numbers = itertools.count(1)

    def start(self, client: str, asked: Mapping[str, Any]) -> AuditJob:
        """Checks what is asked for and puts it into line."""
        job = self._job(asked)
        if sum(one.state == "waiting" for one in self.jobs.values()) >= MOST_WAITING:
            raise UserError(f"{MOST_WAITING} audits are waiting already; try again later")
        self.jobs[job.id] = job
        while len(self.jobs) > KEPT:
            del self.jobs[next(iter(self.jobs))]
        self.worker.submit(client, job.id, lambda: self._run(job))
        return job

    def _job(self, asked: Mapping[str, Any]) -> AuditJob:
        model = asked.get("model")
        do = _texts(asked, "do", MOST_INTERVENTIONS, argument="do")
        classifiers = _texts(asked, "classifiers", MOST_CLASSIFIERS, argument="classifier")
        among = _texts(asked, "among", MOST_INTERVENTIONS, argument="among", optional=True)
        focus = _texts(asked, "focus", MOST_CLASSES, argument="class", optional=True)
        if not isinstance(model, str) or model not in self.catalogue.models():
            raise UserError("choose a model of the list", argument="model")
        known = self.catalogue.classifiers_for(model)
        if wrong := [name for name in classifiers if name not in known]:
            raise UserError(f"choose a classifier of the list, not {wrong[0]!r}", argument="classifier")
        if self.catalogue.inputs and len({name in self.catalogue.classifiers for name in classifiers}) > 1:
            raise UserError(
                "the options about the classifier's input and output are for those that were named; audit runs apart from these",
                argument="classifier",
            )
        count = asked.get("count")
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST_IMAGES:
            raise UserError(f"expected a whole number of images from 1 to {MOST_IMAGES:,}", argument="count")
        options = AuditOptions(
            do=do,
            among=among,
            focus=focus,
            count=count,
            subgroups="all" if asked.get("subgroups") is True else (),
            keep_residual=asked.get("keep_residual") is True,
            predictor="train" if asked.get("judged") is True else "none",
        )
        return AuditJob(f"now-{next(self._numbers)}", model, classifiers, options)

    def position(self, job: AuditJob) -> int:
        """How many audits come before one that waits."""
        ahead = itertools.takewhile(lambda one: one is not job, self.jobs.values())
        return sum(one.state in ("waiting", "running") for one in ahead)

    def cancel(self, id: str) -> AuditJob:
        job = self[id]
        job.cancelled.set()
        if job.state == "waiting":
            job.state = "cancelled"
        return job

    def __getitem__(self, id: str) -> AuditJob:
        if id not in self.jobs:
            raise UserError("this audit is not known here; the list shows those that are", argument="audit")
        return self.jobs[id]

    def close(self) -> None:
        for job in self.jobs.values():
            job.cancelled.set()
        self.worker.close()

    def _run(self, job: AuditJob) -> None:
        """Never raises: what went wrong is the job's message."""
        if job.state == "cancelled":
            return
        job.state = "running"
        try:
            job.report = self._audited(job)
            job.state = "done"
        except Cancelled:
            job.state = "cancelled"
        except UserError as error:
            job.state, job.message = "failed", str(error)
        except Exception as error:  # the page has to hear of it, whatever it was
            job.state, job.message = "failed", f"the audit stopped: {type(error).__name__}: {error}"

    def _audited(self, job: AuditJob) -> str:
        def tell(task: str, done: int, total: int) -> None:
            job.task, job.done, job.total = task, done, total
            if job.cancelled.is_set():
                raise Cancelled
            self.sliders.wait_until_idle(GIVES_WAY)

        job.task = "loading the model and its data"
        model = self.load(job.model)
        first = job.classifiers[0]
        named = first in self.catalogue.classifiers
        continuous = isinstance(self.catalogue.load_classifier(first, model).outcome, Value)
        settings = self.catalogue.options_of(first, continuous) | {"trusted": self.catalogue.trusted}
        classifiers = [ExternalClassifier(name, **settings) for name in job.classifiers]
        with new_results(results_folder(job.model), FOLDER, None) as new:
            options = {name: value for name, value in vars(job.options).items() if name != "batch_size"}
            result = audit(model, classifiers, batch_size=BATCH, progress=tell, **options)
            tell("writing the report", job.total, job.total)
            words = [*(self.inputs if named else ["--output", "value"] if continuous else ())]
            words += ["--trusted"] if self.catalogue.trusted else []
            write_report(replace(result, provenance={"command": job.command(words), **result.provenance}), new)
        return f"{job.model}#{new.path.name}"
