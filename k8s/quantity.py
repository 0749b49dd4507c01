"""Quantities as Kubernetes writes them: `500m`, `2`, `4Gi`, `1e9`."""

import re
from decimal import Decimal


def parse(text: object) -> Decimal:
    """The number. Raises ValueError for a text that Kubernetes would refuse.

    >>> parse("4Gi") == 4 * 1024**3, parse("500m") * 2
    (True, Decimal('1.000'))
    """
    found = _FORM.fullmatch(str(text))
    if found is None:
        raise ValueError(f"{text!r} is no quantity, expected such as 500m, 2 or 4Gi")
    number, suffix, exponent = found.groups()
    if exponent is not None:
        return Decimal(number) * Decimal(10) ** int(exponent)
    return Decimal(number) * _SUFFIXES[suffix or ""]


def bytes_text(count: int) -> str:
    """The bytes in the largest unit that divides them: `4Gi`."""
    for power, unit in ((3, "Gi"), (2, "Mi"), (1, "Ki")):
        if count % 1024**power == 0:
            return f"{count // 1024**power}{unit}"
    return str(count)


_FORM = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(?:(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E)|[eE]([+-]?\d+))?"
)
_SUFFIXES = {
    "": Decimal(1),
    **{name: Decimal(10) ** power for name, power in zip("num", (-9, -6, -3), strict=True)},
    **{name: Decimal(1000) ** (n + 1) for n, name in enumerate("kMGTPE")},
    **{f"{name}i": Decimal(1024) ** (n + 1) for n, name in enumerate("KMGTPE")},
}
