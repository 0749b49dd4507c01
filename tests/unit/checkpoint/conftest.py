from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.checkpoint import Storage, open_storage
from engine.programs.s3_server import S3Server

KEYS = {"access_key": "key", "secret_key": "secret"}


@pytest.fixture(params=["folder", "s3"])
def storage(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Storage]:
    """An empty storage of each kind."""
    if request.param == "folder":
        yield open_storage(tmp_path / "checkpoints")
        return
    (tmp_path / "bucket").mkdir()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["access_key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["secret_key"])
    with S3Server(tmp_path, **KEYS) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        yield open_storage("s3://bucket/jobs/one")
