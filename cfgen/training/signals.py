"""Ctrl-C, SIGTERM and SIGHUP while runs are trained: heard at once, or where nothing is lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from pytorch_lightning.trainer.connectors.signal_connector import _SignalConnector

from cfgen.errors import Terminated
from cfgen.io.endings import ended_by

__all__ = ["LightningSignals", "Signals", "hearing"]


class Signals:
    """Raises `Terminated` at once; while somebody `asks` between batches, only for a second signal."""

    def __init__(self) -> None:
        self.asks = False
        self.received = 0

    def hear(self, number: int, frame: FrameType | None) -> None:
        first, self.received = not self.received, int(number)
        if not (self.asks and first):
            raise Terminated(number)


@contextmanager
def hearing() -> Iterator[Signals]:
    """Signals that ask the process to end are heard inside; one that is ignored, as `nohup` has it, stays ignored.

    Ctrl-C is a KeyboardInterrupt again outside.
    """
    signals = Signals()
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():  # only there may it be asked for
        names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
        before = {number: signal.getsignal(number) for number in map(signal.Signals.__getitem__, names)}
        before = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, signals.hear)
    try:
        yield signals
    except (Exception, Terminated) as error:
        # C++ may have made an error of its own of a signal; one that another process heard comes as `Terminated`
        if heard := error.signal if isinstance(error, Terminated) else signals.received:
            raise ended_by(heard) from error
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class LightningSignals(_SignalConnector):
    """Lightning's handlers, without its answer to SIGTERM: it talks to the other processes from inside a signal handler, in
    the middle of whatever they are saying to each other."""

    def _sigterm_notifier_fn(self, signum: Any, _: Any) -> None:
        """Our handler, which was there before, is called after this."""
