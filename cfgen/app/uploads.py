"""Pictures that users send: limited in bytes and pixels, kept in a temporary folder of the app, gone at its end."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import torch

from cfgen import checkpoints
from cfgen.checkpoints import load_module
from cfgen.contracts import measured_names
from cfgen.errors import UserError
from cfgen.evaluation.packaged import FOLDER, fitting_judges
from cfgen.evaluation.subject import Subject
from cfgen.runs.model import TrainedModel
from cfgen.runs.sources import framed_pictures
from lightning_modules import Predictor

__all__ = ["MOST_BYTES", "TooLarge", "Upload", "Uploads", "proposed_attributes"]

MOST_BYTES = 20_000_000
MOST_UPLOADS = 100  # the oldest goes where there are more
LONGEST_NAME = 100


class TooLarge(UserError):
    """More bytes than a picture may have."""


@dataclass(frozen=True)
class Upload:
    """A picture that was sent: `name` is what its user calls it, `path` where it is kept."""

    id: str
    name: str
    path: Path

    @contextlib.contextmanager
    def named_in_errors(self) -> Iterator[None]:
        """What is wrong with a picture is said by its user's name for it: the place here means nothing to them."""
        try:
            yield
        except UserError as error:
            raise UserError(str(error).replace(str(self.path), self.name), error.argument) from error


class Uploads:
    """The pictures of all users, each under an id that nobody can guess."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="cfgen-app-"))  # for its owner alone
        self._known: OrderedDict[str, Upload] = OrderedDict()

    def __getitem__(self, id: str) -> Upload:
        if id not in self._known:
            raise UserError("this picture is not here any more; choose the file again", argument="image")
        return self._known[id]

    async def take(self, name: str, stated: int | None, chunks: AsyncIterator[bytes]) -> Upload:
        """Writes what is sent to a new file; stops at the first byte too many."""
        if stated is not None and stated > MOST_BYTES:
            raise _too_large()
        id = secrets.token_urlsafe(16)
        upload = Upload(id, shown_name(name), self.folder / id)
        size = 0
        try:
            with upload.path.open("xb") as file:
                async for chunk in chunks:
                    size += len(chunk)
                    if size > MOST_BYTES:
                        raise _too_large()
                    file.write(chunk)
        except BaseException:
            upload.path.unlink(missing_ok=True)
            raise
        self._known[id] = upload
        while len(self._known) > MOST_UPLOADS:
            self.drop(next(iter(self._known)))
        return upload

    def drop(self, id: str) -> None:
        if (upload := self._known.pop(id, None)) is not None:
            upload.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Deletes all pictures."""
        self._known.clear()
        shutil.rmtree(self.folder, ignore_errors=True)


def shown_name(name: str) -> str:
    """A file's own name, without folders, as a recipe writes it.

    >>> shown_name("../../my digit.png"), shown_name("..")
    ('my digit.png', 'picture')
    """
    last = PurePosixPath(name.replace("\\", "/")).name
    clean = "".join(letter for letter in last if letter.isprintable())[-LONGEST_NAME:]
    return clean if clean.strip(". ") else "picture"


def _too_large() -> TooLarge:
    return TooLarge(
        f"the picture has more than {MOST_BYTES // 1_000_000} MB, which is the most that is taken; make it smaller",
        argument="image",
    )


def proposed_attributes(model: TrainedModel, upload: Upload) -> dict[str, dict[str, Any]]:
    """What can be told of a picture without its user: measured by the model's data, or read by a judge that comes with cfgen.

    Each is a value in real units and `by` whom; what is `measured` need not be given to `cfgen generate`.
    """
    with upload.named_in_errors():
        x, data = framed_pictures(model, [upload.path])
    found: dict[str, dict[str, Any]] = {}
    names = measured_names(data, model.schema)
    measured = data.measure(x, names) if names else {}
    for name, column in model.values({name: c for name, c in measured.items() if c.isfinite().all()}).items():
        found[name] = {"value": column[0].item(), "by": "measured", "measured": True}
    missing = [name for name in model.schema.names if name not in found]
    for judge in fitting_judges(Subject("", model.module, data, "test", x, {}))[:1] if missing else ():
        predictor = load_module(checkpoints.PACKAGED / FOLDER / judge, Predictor).eval()
        with torch.inference_mode():
            read = {name: column for name, column in predictor.read(x).items() if name in missing}
        for name, column in model.values(read).items():
            value = column[0] if isinstance(column, list) else column[0].item()
            found[name] = {"value": value, "by": f"read by {judge}", "measured": False}
    return found
