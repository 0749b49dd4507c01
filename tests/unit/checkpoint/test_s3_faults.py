"""Checkpoints in an S3 that answers 503, before or behind what it was asked to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.checkpoint import CheckpointLog, Manifest, open_storage
from engine.errors import StorageError
from tests.s3_proxy import Proxy, s3_behind_proxy


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with s3_behind_proxy(tmp_path, monkeypatch) as proxy:
        yield proxy


@pytest.mark.parametrize("when", ["before", "behind"])
def test_few_refusals_are_only_a_delay(proxy, when):
    log = CheckpointLog(open_storage("s3://bucket/job"))
    setattr(proxy, when, 2)
    assert log.claim("latest").generation in (1, 2)  # a claim whose answer was lost is another's
    setattr(proxy, when, 2)
    log.store(Manifest("job", 1, 1, ()))
    log.store(Manifest("job", 2, 1, ()))
    assert [each.epoch for each in log.manifests()] == [1, 2]
    assert (proxy.before, proxy.behind) == (0, 0)
    assert CheckpointLog(open_storage("s3://bucket/job")).claim("latest").manifest.epoch == 2


def test_refusals_without_end_fail_the_call_and_nothing_else(proxy, monkeypatch):
    from engine.checkpoint import s3

    monkeypatch.setattr(s3, "S3", type("S3", (), {"open": lambda url: s3_open(url, retries=1)}))
    from engine.s3 import S3

    s3_open = S3.open
    log = CheckpointLog(open_storage("s3://bucket/job"))
    log.claim()
    proxy.before = 2
    with pytest.raises(StorageError, match=r"s3://bucket/job/log/00000002 at http"):
        log.store(Manifest("job", 1, 1, ()))
    proxy.behind = 2
    with pytest.raises(StorageError):
        log.store(Manifest("job", 2, 1, ()))
    log.store(Manifest("job", 2, 1, ()))  # the same again, where nobody knows whether it is there
    proxy.behind = 2
    with pytest.raises(StorageError):
        log.store(Manifest("job", 3, 1, ()))
    log.store(Manifest("job", 4, 1, ()))  # another, behind one that is there after all
    assert [each.epoch for each in log.manifests()] == [2, 3, 4]
