"""How every command refuses: exit code 2 and one line on stderr that names what is wrong.  What it says is in test_messages."""

from collections.abc import Callable, Sequence

import pytest

__all__ = ["refusal"]


def refusal(
    main: Callable[[Sequence[str]], int],
    words: Sequence[object],
    capsys: pytest.CaptureFixture[str],
    argument: str | None = None,
) -> str:
    """The line with which a command refuses these words; `argument` is the option or argument it must name."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert len(lines[0]) < 1000
    assert "Traceback" not in lines[0]
    if argument is not None:
        assert lines[0].startswith((f"error: --{argument}: ", f"error: {argument.upper()}: "))
    return lines[0]
