"""Words are readable in both colour schemes: WCAG 2.2 AA wants 4.5:1."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

CSS = Path(__file__).resolve().parents[3] / "static" / "console" / "css"
WORDS = ["ink", "ink-2", "ink-3", "accent", "ok", "bad", "run", "wait", "warn"]
SURFACES = ["paper", "surface"]
PAIRS = [
    *product(WORDS, SURFACES),
    ("accent-ink", "accent"),
    ("accent", "accent-soft"),
    ("ink", "accent-soft"),
    ("ink", "bad-soft"),
    ("bad", "bad-soft"),
    ("ink", "warn-soft"),
    ("warn", "warn-soft"),
]


def tokens(sheet: str, theme: str) -> dict[str, str]:
    """The custom properties of a colour scheme; the dark one overrides the light one."""
    text = (CSS / sheet).read_text()
    blocks = re.findall(r'(:root(?:\[data-theme="dark"\])?) \{(.*?)\}', text, re.DOTALL)
    wanted = blocks[:1] if theme == "light" else blocks[:2]
    return {
        name: value
        for _selector, block in wanted
        for name, value in re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)
    }


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("word", "surface"), PAIRS)
def test_words_stand_out_from_their_surface(theme: str, word: str, surface: str):
    colours = tokens("base.css", theme)

    assert contrast(colours[word], colours[surface]) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("number", range(16))
def test_terminal_colours_stand_out_from_the_log(theme: str, number: int):
    colours = tokens("log.css", theme)

    assert contrast(colours[f"sgr-{number}"], colours["log-paper"]) >= 4.5


@pytest.mark.parametrize("sheet", ["base.css", "log.css"])
def test_the_scheme_of_the_system_is_the_dark_one_again(sheet: str):
    text = (CSS / sheet).read_text()
    blocks = [
        re.findall(r"--[\w-]+: [^;]+;", block)
        for block in re.findall(r':root\[data-theme="(?:dark|system)"\] \{(.*?)\}', text, re.DOTALL)
    ]

    assert len(blocks) == 2
    assert blocks[0] == blocks[1]
