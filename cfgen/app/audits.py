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

from cfgen.app.catalogue import Catalogue, input_options
from cfgen.app.queueing import FairWorker
from cfgen.attributes import Columns
from cfgen.audit.checks import parse_interventions
from cfgen.audit.library import audit, cohort
from cfgen.errors import UserError
from cfgen.reporting.files import new_results
from cfgen.runs.data import results_folder
from cfgen.runs.folders import runs_of
from cfgen.runs.model import TrainedModel
from cfgen.safety.files import read_json

__all__ = ["AuditJob", "Audits", "Earlier", "counted", "earlier_audits"]

FOLDER = "audits"
MOST_INTERVENTIONS, MOST_CLASSIFIERS, MOST_IMAGES = 20, 4, 20_000
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
    do: list[str]
    count: int
    judged: bool
    keep_residual: bool
    state: str = "waiting"  # then running, and at last done, failed or cancelled
    task: str = ""
    done: int = 0
    total: int = 0
    message: str = ""
    report: str = ""  # the id of the report, once there is one
    started: float = field(default_factory=time.monotonic)
    cancelled: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def options(self) -> dict[str, Any]:
        """What `audit` is called with, beside model and classifiers."""
        return {
            "do": self.do,
            "count": self.count,
            "keep_residual": self.keep_residual,
            "predictor": "train" if self.judged else None,
        }

    def command(self, further: Sequence[str]) -> str:
        """The same audit on the command line."""
        words = ["cfgen", "audit", "--model", self.model]
        for option, values in (("--classifier", self.classifiers), ("--do", self.do)):
            words += [word for value in values for word in (option, value)]
        words += ["--count", str(self.count), *further]
        words += ["--keep_residual"] if self.keep_residual else []
        words += [] if self.judged else ["--predictor", "none"]
        return shlex.join(words)

    def to_dict(self) -> dict[str, Any]:
        shown = ("id", "model", "classifiers", "do", "count", "state", "task", "done", "total", "message", "report")
        return {name: getattr(self, name) for name in shown}


@dataclass(frozen=True)
class Earlier:
    """An audit that has a report: its id in lists, its folder, and what it found."""

    id: str
    model: str
    folder: Path

    def found(self) -> dict[str, Any]:
        return read_json(self.folder / "audit.json")


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


def counted(model: TrainedModel, columns: Columns, do: Sequence[str]) -> list[dict[str, Any]]:
    """For each intervention how many images have it already; only the others are asked about."""
    total = len(next(iter(columns.values())))
    found = []
    for text, values in parse_interventions(model.schema, do).items():
        try:
            wanted = model.schema.check_do(values)
        except ValueError as error:  # e.g. a shift, which no image has already
            raise UserError(str(error), argument="do") from error
        found.append({"do": text, "have": int(cohort(columns, wanted).sum()), "images": total})
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
        model, do, classifiers = asked.get("model"), asked.get("do"), asked.get("classifiers")
        for argument, value, most in (
            ("do", do, MOST_INTERVENTIONS),
            ("classifier", classifiers, MOST_CLASSIFIERS),
        ):
            if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
                raise UserError("choose at least one", argument=argument)
            if len(value) > most:
                raise UserError(f"choose at most {most} at once", argument=argument)
        assert isinstance(do, list)
        assert isinstance(classifiers, list)
        if not isinstance(model, str) or model not in self.catalogue.models():
            raise UserError("choose a model of the list", argument="model")
        known = self.catalogue.classifiers_for(model)
        if wrong := [name for name in classifiers if name not in known]:
            raise UserError(f"choose a classifier of the list, not {wrong[0]!r}", argument="classifier")
        if (
            len({name in self.catalogue.classifiers for name in classifiers}) > 1
            and self.catalogue.inputs != input_options()
        ):
            raise UserError(
                "the options about the classifier's input and output are for those that were named; audit runs apart from these",
                argument="classifier",
            )
        count = asked.get("count")
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST_IMAGES:
            raise UserError(f"expected a whole number of images from 1 to {MOST_IMAGES:,}", argument="count")
        return AuditJob(
            id=f"now-{next(self._numbers)}",
            model=model,
            classifiers=classifiers,
            do=do,
            count=count,
            judged=asked.get("judged") is True,
            keep_residual=asked.get("keep_residual") is True,
        )

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
        named = job.classifiers[0] in self.catalogue.classifiers
        root = results_folder(job.model)
        with new_results(root, FOLDER, None) as new:
            result = audit(
                model,
                job.classifiers,
                **job.options,
                **(self.catalogue.inputs if named else input_options()),
                trusted=self.catalogue.trusted,
                batch_size=BATCH,
                progress=tell,
            )
            tell("writing the report", job.total, job.total)
            words = [*(self.inputs if named else ()), *(["--trusted"] if self.catalogue.trusted else [])]
            new.write(replace(result, command=job.command(words)).files())
        return f"{job.model}#{new.path.name}"
