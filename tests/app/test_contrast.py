"""What is written on the pages can be read: contrast as WCAG 2 measures it, in light, in the dark and on paper."""

import re
from pathlib import Path

import pytest

import cfgen

FOLDER = Path(cfgen.__file__).parent
SHEETS = ["app/static/app.css", "study/page/study.css"]
ON_GROUND = ("ink", "soft", "accent", "follow", "good", "bad")  # colours of text
GROUNDS = ("paper", "card", "quiet")
ON_WASH = {"accent": "accent-wash", "follow": "follow-wash", "bad": "bad-wash", "on-accent": "accent"}


def themes(sheet: str) -> list[dict[str, str]]:
    """The colours of each `:root`, with what a later one leaves as it was in the first."""
    blocks = re.findall(r":root\s*\{([^}]*)\}", (FOLDER / sheet).read_text(encoding="utf-8"))
    found = [dict(re.findall(r"--([\w-]+):\s*(#[0-9a-fA-F]{3,6})", block)) for block in blocks]
    return [found[0] | theme for theme in found if theme]


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    shares = [int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """From 1, no difference, to 21, black on white."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_measure_itself():
    assert contrast("#000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # as other tools give it


@pytest.mark.parametrize("sheet", SHEETS)
def test_text_stands_out_from_what_it_is_written_on(sheet):
    found = themes(sheet)
    assert len(found) >= 2  # light and dark
    for theme in found:
        pairs = [(text, ground) for text in ON_GROUND for ground in GROUNDS]
        pairs += list(ON_WASH.items())
        measured = {
            f"{text} on {ground}": contrast(theme[text], theme[ground])
            for text, ground in pairs
            if text in theme and ground in theme
        }
        assert min(measured.values()) >= 4.5, {pair: ratio for pair, ratio in measured.items() if ratio < 4.5}
