"""Quantities of Kubernetes."""

from decimal import Decimal

import pytest

from k8s.quantity import bytes_text, parse


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2", 2),
        (2, 2),
        ("500m", Decimal("0.5")),
        ("1.5Gi", 3 * 2**29),
        ("10k", 10_000),
        ("1e3", 1000),
        ("1E", 10**18),
        ("3Ki", 3072),
        (".5", Decimal("0.5")),
    ],
)
def test_what_kubernetes_takes(text: object, number: object) -> None:
    assert parse(text) == number


@pytest.mark.parametrize("text", ["4GB", "4 Gi", "four", "", "1.2.3", "Gi", "4gi", "1e", None])
def test_what_it_does_not(text: object) -> None:
    with pytest.raises(ValueError, match="is no quantity, expected such as 500m, 2 or 4Gi"):
        parse(text)


@pytest.mark.parametrize(
    ("count", "text"), [(4 * 2**30, "4Gi"), (1536 * 2**20, "1536Mi"), (2048, "2Ki"), (1000, "1000")]
)
def test_bytes_in_the_largest_unit_that_divides_them(count: int, text: str) -> None:
    assert bytes_text(count) == text
    assert parse(text) == count
