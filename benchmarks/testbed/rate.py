"""Rates of links as people write them: `1gbit`, `100mbit`, `unlimited`."""

from __future__ import annotations

import re
from typing import Any

import click

from engine.errors import ConfigError
from engine.units import rate as short


def parse_rate(text: str) -> int | None:
    """Bits per second; None is no limit.

    >>> parse_rate("1.5gbit"), parse_rate("unlimited")
    (1500000000, None)
    """
    if text == UNLIMITED:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg])bit", text)
    bits = int(float(found[1]) * _FACTORS[found[2]]) if found else 0
    if not LEAST_RATE <= bits <= MOST_RATE:
        raise ConfigError(
            f"rate is {text!r}, expected 100kbit to 100gbit, or {UNLIMITED}",
            "write it like 1gbit, 100mbit or 2.5gbit",
        )
    return bits


def show_rate(bits_per_second: int | None) -> str:
    """The rate as `parse_rate` reads it, rounded to three digits."""
    return UNLIMITED if bits_per_second is None else f"{short(bits_per_second).lower()}bit"


def link_name(bits_per_second: float | None) -> str:
    """The rate as figures call it: `1 Gbit/s`, `no limit`."""
    if bits_per_second is None:
        return "no limit"
    if bits_per_second >= _FACTORS["g"]:
        return f"{bits_per_second / _FACTORS['g']:g} Gbit/s"
    return f"{bits_per_second / _FACTORS['m']:g} Mbit/s"


class RateType(click.ParamType[Any]):
    """A rate on the command line, which `parse_rate` understands."""

    name = "rate"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | None:
        """Parse the rate."""
        del param, ctx
        return parse_rate(value)


UNLIMITED = "unlimited"
LEAST_RATE = 100_000
MOST_RATE = 100_000_000_000
_FACTORS = {"k": 1e3, "m": 1e6, "g": 1e9}
