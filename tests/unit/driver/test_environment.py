"""The environment of local workers: what malloc is told."""

from __future__ import annotations

import pytest

from engine.driver.local import links
from engine.driver.local.links import environment


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, "glibc.malloc.hugetlb=1"),
        ("", "glibc.malloc.hugetlb=1"),
        ("glibc.malloc.check=3", "glibc.malloc.check=3:glibc.malloc.hugetlb=1"),
        ("glibc.malloc.hugetlb=0", "glibc.malloc.hugetlb=0"),
    ],
)
def test_malloc_asks_for_huge_pages_unless_a_user_decides(
    monkeypatch: pytest.MonkeyPatch, given: str | None, expected: str
) -> None:
    monkeypatch.setattr(links, "IS_LINUX", True)
    monkeypatch.setenv("OTHER", "kept")
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    if given is not None:
        monkeypatch.setenv("GLIBC_TUNABLES", given)
    assert environment()["GLIBC_TUNABLES"] == expected
    assert environment()["OTHER"] == "kept"


def test_malloc_of_others_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "IS_LINUX", False)
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    monkeypatch.setenv("OTHER", "kept")
    told = environment()
    assert "GLIBC_TUNABLES" not in told
    assert (told["OTHER"], told["OBJC_DISABLE_INITIALIZE_FORK_SAFETY"]) == ("kept", "YES")
