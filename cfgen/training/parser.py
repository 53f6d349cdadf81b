"""The parser behind `cfgen fit`: packaged configs by name, and errors that name the option and the valid choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from jsonargparse import ActionConfigFile, Namespace
from pytorch_lightning.cli import LightningArgumentParser

from cfgen.errors import UserError
from cfgen.safety.files import read_text
from cfgen.training.configs import find_config
from cfgen.training.errors import explain

__all__ = ["OneLineParser", "PackagedConfigFile"]


class PackagedConfigFile(ActionConfigFile):
    """`--config NAME`: a path or the name of a packaged config."""

    @staticmethod
    def apply_config(parser: Any, cfg: Namespace, dest: str, value: str) -> None:
        path = find_config(value)
        try:
            read_text(path)  # refuses what is no text at all, which the parser would stumble over
        except UserError as error:
            raise UserError(str(error), argument="config") from error
        ActionConfigFile.apply_config(parser, cfg, dest, str(path))


class OneLineParser(LightningArgumentParser):
    """A parser whose errors are one line with the valid choices."""

    given: Sequence[str] = ()

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        if not self.given:  # a parser inside the parser: the outer one hears what it says and knows the command
            raise UserError(message)
        # nested keys, like trainer.max_epochs, belong to their classes
        options = {action.dest for action in self._actions if "." not in action.dest} - {"==SUPPRESS=="}
        raise explain(message, self.given, options)
