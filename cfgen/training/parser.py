"""The parser behind `cfgen fit`: packaged configs by name, and errors that name the option and the valid choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from jsonargparse import ActionConfigFile, Namespace
from jsonargparse._typehints import ActionTypeHint, NestedArg
from pytorch_lightning.cli import LightningArgumentParser

from cfgen.errors import UserError
from cfgen.io.files import read_text
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


class ReplacedWhole(ActionTypeHint):
    """An option that takes a list, such as `trainer.callbacks`: a later value takes the place of an earlier one, whole.

    The parser's own action merges two lists by position: a callback gets what it does not say from whichever callback was in
    its place in an earlier config.
    """

    def _check_type_(self, value: Any, **kwargs: Any) -> Any:
        # `callbacks+` appends to the earlier list, `callbacks.NAME` changes its last member: these two need it
        if not kwargs.get("append") and not isinstance(value, NestedArg):
            kwargs["cfg"] = None
        return super()._check_type_(value, **kwargs)


class OneLineParser(LightningArgumentParser):
    """A parser whose errors are one line with the valid choices, and whose lists are replaced or appended to."""

    given: Sequence[str] = ()

    def add_class_arguments(self, *args: Any, **kwargs: Any) -> list[str]:
        added = super().add_class_arguments(*args, **kwargs)
        for action in self._actions:
            if type(action) is ActionTypeHint and ActionTypeHint.supports_append(action):
                action.__class__ = ReplacedWhole
        return added

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        if not self.given:  # a parser inside the parser: the outer one hears what it says and knows the command
            raise UserError(message)
        # nested keys, like trainer.max_epochs, belong to their classes
        options = {action.dest for action in self._actions if "." not in action.dest} - {"==SUPPRESS=="}
        raise explain(message, self.given, options)
