"""A server for the tests of S3, and boto3 as a client of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from engine.programs.s3_server import S3Server

ACCESS_KEY = "oka-test-key"
SECRET_KEY = "oka-test-secret/with+signs"
ROLE = "arn:aws:iam::000000000000:role/reader"


@contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[S3Server]:
    """A server on the folder, with the bucket `models`."""
    (folder / "models").mkdir(parents=True, exist_ok=True)
    keys = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY}
    with S3Server(folder, **{"roles": [ROLE], **keys, **settings}) as server:
        yield server


@contextmanager
def stranger(
    endpoint: str,
    service: str = "s3",
    key: str = ACCESS_KEY,
    secret: str = SECRET_KEY,
    token: str | None = None,
) -> Iterator[Any]:
    """A client of boto3, without retries."""
    client = boto3.client(
        service,
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        aws_session_token=token,
        config=Config(
            signature_version="s3v4" if service == "s3" else None,
            retries={"max_attempts": 1, "mode": "standard"},
            read_timeout=20,
        ),
    )
    try:
        yield client
    finally:
        client.close()
