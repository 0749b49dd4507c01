"""The S3 server, as boto3 sees it: a client that knows nothing of us."""

from __future__ import annotations

import http.client
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from botocore.exceptions import ClientError, HTTPClientError

from engine.errors import ConfigError, StorageError
from engine.programs.s3_server import S3Server
from tests.integration.s3_server import ACCESS_KEY, ROLE, SECRET_KEY, serving, stranger
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    with serving(tmp_path / "objects") as server:
        yield server


@pytest.fixture
def s3(server: S3Server) -> Iterator[Any]:
    with stranger(server.endpoint) as client:
        yield client


def refused(code: str) -> Any:
    return pytest.raises(ClientError, match=rf"\({code}\)")


def objects(folder: Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder)) for path in (folder / "objects").rglob("*") if path.is_file()
    )


def put(s3: Any, key: str, body: bytes = b"x") -> Any:
    return s3.put_object(Bucket="models", Key=key, Body=body)


def test_objects_are_files(s3: Any, tmp_path: Path) -> None:
    put(s3, "a/b/ä ö+%/c?.bin", b"\0\xff" * 10)
    put(s3, "empty", b"")
    assert objects(tmp_path) == ["objects/models/a/b/ä ö+%/c?.bin", "objects/models/empty"]
    answer = s3.get_object(Bucket="models", Key="a/b/ä ö+%/c?.bin")
    assert answer["Body"].read() == b"\0\xff" * 10
    head = s3.head_object(Bucket="models", Key="a/b/ä ö+%/c?.bin")
    assert (head["ContentLength"], head["ETag"]) == (20, answer["ETag"])
    assert s3.get_object(Bucket="models", Key="empty")["Body"].read() == b""
    s3.delete_object(Bucket="models", Key="a/b/ä ö+%/c?.bin")
    s3.delete_object(Bucket="models", Key="never/there")
    assert objects(tmp_path) == ["objects/models/empty"]
    assert not (tmp_path / "objects/models/a").exists()


def test_ranges(s3: Any) -> None:
    data = os.urandom(3 << 20)
    put(s3, "data", data)

    def read(wanted: str) -> tuple[bytes, str]:
        answer = s3.get_object(Bucket="models", Key="data", Range=wanted)
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 206
        return answer["Body"].read(), answer["ContentRange"]

    size = len(data)
    assert read("bytes=0-0") == (data[:1], f"bytes 0-0/{size}")
    assert read("bytes=1048570-2100000")[0] == data[1048570:2100001]
    assert read(f"bytes={size - 5}-")[0] == data[-5:]
    assert read("bytes=-7") == (data[-7:], f"bytes {size - 7}-{size - 1}/{size}")
    assert read(f"bytes=5-{10 * size}")[0] == data[5:]
    with refused("InvalidRange"):
        read(f"bytes={size}-")


def test_conditions(s3: Any) -> None:
    first = put(s3, "key", b"one")["ETag"]
    second = put(s3, "key", b"two")["ETag"]
    assert first != second
    with refused("PreconditionFailed"):
        s3.get_object(Bucket="models", Key="key", IfMatch=first)
    with refused("304"):
        s3.get_object(Bucket="models", Key="key", IfNoneMatch=second)
    with refused("PreconditionFailed"):
        s3.put_object(Bucket="models", Key="key", Body=b"three", IfNoneMatch="*")
    assert s3.get_object(Bucket="models", Key="key", IfMatch=second)["Body"].read() == b"two"


def test_listing_pages(s3: Any) -> None:
    keys = [f"v1/{number:03}" for number in range(25)] + ["v1/sub/a", "v1/sub/b", "v2", "v3/x"]
    for key in keys:
        put(s3, key)
    pages = s3.get_paginator("list_objects_v2")

    def listed(**settings: Any) -> tuple[list[str], list[str]]:
        found: list[str] = []
        common: list[str] = []
        for page in pages.paginate(Bucket="models", PaginationConfig={"PageSize": 4}, **settings):
            found += [each["Key"] for each in page.get("Contents", [])]
            common += [each["Prefix"] for each in page.get("CommonPrefixes", [])]
        return found, common

    assert listed() == (sorted(keys), [])
    assert listed(Prefix="v1/02") == ([key for key in keys if key.startswith("v1/02")], [])
    assert listed(Delimiter="/") == (["v2"], ["v1/", "v3/"])
    assert listed(Prefix="v1/", Delimiter="/") == (keys[:25], ["v1/sub/"])
    assert listed(StartAfter="v1/sub/a") == (["v1/sub/b", "v2", "v3/x"], [])
    assert listed(Prefix="../") == ([], [])


def test_multipart(s3: Any, tmp_path: Path) -> None:
    data = os.urandom(12 << 20)
    begun = s3.create_multipart_upload(Bucket="models", Key="deep/big")
    upload = {"Bucket": "models", "Key": "deep/big", "UploadId": begun["UploadId"]}
    parts = []
    for number, at in ((2, 5 << 20), (1, 0), (3, 10 << 20)):  # in no order, and one of them twice
        s3.upload_part(**upload, PartNumber=number, Body=b"wrong at first")
        body = data[at : at + (5 << 20)]
        tag = s3.upload_part(**upload, PartNumber=number, Body=body)["ETag"]
        parts.append({"PartNumber": number, "ETag": tag})
    parts.sort(key=lambda part: part["PartNumber"])
    listed = s3.list_parts(**upload)["Parts"]
    assert [part["Size"] for part in listed] == [5 << 20, 5 << 20, 2 << 20]
    with refused("NoSuchKey"):
        s3.get_object(Bucket="models", Key="deep/big")
    with refused("InvalidPart"):
        s3.complete_multipart_upload(
            **upload, MultipartUpload={"Parts": [*parts[:2], {**parts[2], "ETag": '"none"'}]}
        )
    with refused("InvalidPartOrder"):
        s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts[::-1]})
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert s3.get_object(Bucket="models", Key="deep/big")["Body"].read() == data
    with refused("NoSuchUpload"):
        s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert objects(tmp_path) == ["objects/models/deep/big"]


def test_aborted_uploads_leave_nothing(s3: Any, tmp_path: Path) -> None:
    upload_id = s3.create_multipart_upload(Bucket="models", Key="big")["UploadId"]
    upload = {"Bucket": "models", "Key": "big", "UploadId": upload_id}
    s3.upload_part(**upload, PartNumber=1, Body=b"part")
    with refused("NoSuchUpload"):
        s3.upload_part(Bucket="models", Key="other", UploadId=upload_id, PartNumber=1, Body=b"x")
    s3.abort_multipart_upload(**upload)
    assert objects(tmp_path) == []
    with refused("NoSuchUpload"):
        s3.upload_part(**upload, PartNumber=2, Body=b"part")
    assert objects(tmp_path) == []


def test_uploads_survive_a_restart_but_not_for_ever(tmp_path: Path) -> None:
    with serving(tmp_path) as server, stranger(server.endpoint) as s3:
        kept = s3.create_multipart_upload(Bucket="models", Key="kept")["UploadId"]
        stale = s3.create_multipart_upload(Bucket="models", Key="stale")["UploadId"]
        (tmp_path / ".oka-s3/7.partial").write_bytes(b"of a server that was killed")
    two_days_ago = time.time() - 2 * 86_400
    os.utime(tmp_path / ".oka-s3/uploads" / stale, (two_days_ago, two_days_ago))
    with serving(tmp_path) as server, stranger(server.endpoint) as s3:
        wait_until(lambda: not (tmp_path / ".oka-s3/uploads" / stale).exists())
        uploads = [path.name for path in (tmp_path / ".oka-s3/uploads").iterdir()]
        assert uploads == [kept]
        assert not (tmp_path / ".oka-s3/7.partial").exists()
        s3.abort_multipart_upload(Bucket="models", Key="kept", UploadId=kept)


def test_copy_and_delete_several(s3: Any) -> None:
    put(s3, "a/one", b"one")
    s3.copy_object(Bucket="models", Key="b/two", CopySource="models/a/one")
    assert s3.get_object(Bucket="models", Key="b/two")["Body"].read() == b"one"
    answer = s3.delete_objects(
        Bucket="models", Delete={"Objects": [{"Key": "a/one"}, {"Key": "b/two"}, {"Key": "none"}]}
    )
    assert [each["Key"] for each in answer["Deleted"]] == ["a/one", "b/two", "none"]
    assert s3.list_objects_v2(Bucket="models")["KeyCount"] == 0


def test_buckets(s3: Any) -> None:
    s3.create_bucket(Bucket="another")
    with refused("BucketAlreadyOwnedByYou"):
        s3.create_bucket(Bucket="another")
    assert [each["Name"] for each in s3.list_buckets()["Buckets"]] == ["another", "models"]
    s3.head_bucket(Bucket="another")
    put(s3, "key")
    with refused("BucketNotEmpty"):
        s3.delete_bucket(Bucket="models")
    s3.delete_bucket(Bucket="another")
    with refused("404"):
        s3.head_bucket(Bucket="another")
    with refused("NoSuchBucket"):
        s3.list_objects_v2(Bucket="another")
    with refused("NoSuchBucket"):  # last: a body that comes behind the answer breaks the connection
        s3.put_object(Bucket="another", Key="key", Body=b"x")


@pytest.mark.parametrize("key", ["a//b", "a/./b", "../outside", "folder/", "x" * 300])
def test_keys_that_are_no_files(s3: Any, tmp_path: Path, key: str) -> None:
    with pytest.raises(ClientError):
        put(s3, key)
    with pytest.raises(ClientError):
        s3.get_object(Bucket="models", Key=key)
    assert objects(tmp_path) == []
    assert not (tmp_path / "outside").exists()


def test_no_key_leads_out_of_its_bucket(server: S3Server, s3: Any, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of somebody else")
    (tmp_path / "elsewhere").mkdir()
    bucket = tmp_path / "objects/models"
    (bucket / "link").symlink_to(tmp_path / "secret")
    (bucket / "folder").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(bucket / "pipe")
    for key in ("link", "pipe"):
        with pytest.raises(ClientError, match=r"AccessDenied|NoSuchKey"):
            s3.get_object(Bucket="models", Key=key)
    with pytest.raises(ClientError, match=r"AccessDenied|KeyConflict"):
        put(s3, "folder/key")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert s3.list_objects_v2(Bucket="models")["KeyCount"] == 0
    # As it is on the wire, which no client of S3 would send.
    with pytest.raises(ClientError):
        s3.get_object(Bucket="models", Key="%2e%2e/%2e%2e/secret")


def test_a_key_below_an_object_is_refused(s3: Any, tmp_path: Path) -> None:
    put(s3, "a/b", b"first")
    for key in ("a/b/c", "a"):
        with refused("KeyConflict"):
            put(s3, key)
    assert objects(tmp_path) == ["objects/models/a/b"]


def test_signatures_are_checked(server: S3Server) -> None:
    with stranger(server.endpoint, secret="not the secret") as s3:
        with refused("SignatureDoesNotMatch") as caught:
            put(s3, "key")
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    with stranger(server.endpoint, key="nobody") as s3, refused("InvalidAccessKeyId"):
        put(s3, "key")
    with stranger(server.endpoint, token="made up") as s3, refused("InvalidToken"):
        put(s3, "key")
    connection = http.client.HTTPConnection(server.endpoint.removeprefix("http://"), timeout=300)
    connection.request("GET", "/models?list-type=2")
    answer = connection.getresponse()
    assert (answer.status, b"AccessDenied" in answer.read()) == (403, True)
    connection.close()


def test_a_body_that_is_not_what_was_signed(s3: Any, tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="BadDigest"):
        s3.put_object(Bucket="models", Key="key", Body=b"data", ChecksumCRC32="AAAAAA==")
    with pytest.raises((ClientError, HTTPClientError)):
        s3.put_object(
            Bucket="models",
            Key="key",
            Body=b"data",
            ChecksumSHA256="A" * 43 + "=",
        )
    assert objects(tmp_path) == []


def test_a_body_that_is_cut_off(server: S3Server, s3: Any, tmp_path: Path) -> None:
    url = s3.generate_presigned_url("put_object", Params={"Bucket": "models", "Key": "key"})
    connection = http.client.HTTPConnection(server.endpoint.removeprefix("http://"), timeout=300)
    connection.putrequest("PUT", url.removeprefix(server.endpoint))
    connection.putheader("Content-Length", "1000")
    connection.endheaders()
    connection.send(b"only this")
    wait_until(lambda: objects(tmp_path))  # the server writes it
    connection.close()
    wait_until(lambda: not objects(tmp_path))


def test_temporary_credentials(server: S3Server) -> None:
    with stranger(server.endpoint, "sts") as sts:
        answer = sts.assume_role(RoleArn=ROLE, RoleSessionName="test")
        with pytest.raises(ClientError, match="AccessDenied"):
            sts.assume_role(RoleArn=ROLE + "x", RoleSessionName="test")
        with pytest.raises(ClientError, match="InvalidAction"):
            sts.get_caller_identity()
    assert answer["AssumedRoleUser"]["Arn"].endswith(":assumed-role/reader/test")
    given = answer["Credentials"]
    key, secret, token = (given[n] for n in ("AccessKeyId", "SecretAccessKey", "SessionToken"))
    with stranger(server.endpoint, key=key, secret=secret, token=token) as s3:
        put(s3, "key", b"by the role")
        url = s3.generate_presigned_url("get_object", Params={"Bucket": "models", "Key": "key"})
    forged = url.replace("Security-Token=", "Security-Token=x")
    for signed, status in ((url, 200), (forged, 403)):
        connection = http.client.HTTPConnection(
            server.endpoint.removeprefix("http://"), timeout=300
        )
        connection.request("GET", signed.removeprefix(server.endpoint))
        answer = connection.getresponse()
        assert answer.status == status, answer.read()
        connection.close()
    for wrong in (None, token[:-1] + ("A" if token[-1] != "A" else "B")):
        with (
            stranger(server.endpoint, key=key, secret=secret, token=wrong) as s3,
            refused("InvalidToken"),
        ):
            put(s3, "key")
    with (
        stranger(server.endpoint, "sts", secret="wrong") as sts,
        pytest.raises(ClientError, match=r"SignatureDoesNotMatch|403|Unknown"),
    ):
        sts.assume_role(RoleArn=ROLE, RoleSessionName="test")


def test_temporary_credentials_end(tmp_path: Path) -> None:
    with serving(tmp_path, session_seconds=5) as server:
        with stranger(server.endpoint) as s3:
            put(s3, "key")  # the next client of its kind is made at once
        with stranger(server.endpoint, "sts") as sts:
            given = sts.assume_role(RoleArn=ROLE, RoleSessionName="test")["Credentials"]
        with stranger(
            server.endpoint,
            key=given["AccessKeyId"],
            secret=given["SecretAccessKey"],
            token=given["SessionToken"],
        ) as s3:
            put(s3, "key")

            def is_expired() -> bool:
                try:
                    put(s3, "key")
                except ClientError as error:
                    return bool(error.response["Error"]["Code"] == "ExpiredToken")
                return False

            wait_until(is_expired)


def test_web_identity(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a.web.token\n")
    wanted = {"RoleArn": ROLE, "RoleSessionName": "test"}
    with (
        serving(tmp_path / "objects", web_identity_token_file=file) as server,
        stranger(server.endpoint, "sts", key="none", secret="none") as sts,
    ):
        answer = sts.assume_role_with_web_identity(**wanted, WebIdentityToken="a.web.token")
        assert answer["Credentials"]["SessionToken"]
        for wrong in ("a.web.tokem", "a.web.token.and.more"):
            with refused("InvalidIdentityToken"):
                sts.assume_role_with_web_identity(**wanted, WebIdentityToken=wrong)
    with (
        serving(tmp_path / "objects") as server,  # which accepts no web identity at all
        stranger(server.endpoint, "sts") as sts,
        refused("InvalidIdentityToken"),
    ):
        sts.assume_role_with_web_identity(**wanted, WebIdentityToken="a.web.token")


def test_a_full_disk(server: S3Server, s3: Any, tmp_path: Path) -> None:
    put(s3, "key", b"the first")
    pid = server.pid
    limits = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1 << 20, limits[1]))  # as full as can be made
    with pytest.raises(ClientError, match="InsufficientStorage") as caught:
        put(s3, "key", b"x" * (3 << 20))
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 507
    assert objects(tmp_path) == ["objects/models/key"]
    assert s3.get_object(Bucket="models", Key="key")["Body"].read() == b"the first"


def test_what_cannot_be_served(server: S3Server, tmp_path: Path) -> None:
    keys = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY}
    with pytest.raises(StorageError, match="another server uses this folder"):
        S3Server(tmp_path / "objects", **keys)
    port = int(server.endpoint.rsplit(":", 1)[1])
    with pytest.raises(StorageError, match=r"(?s)in use.*hint: .*--port"):
        S3Server(tmp_path / "other", port=port, **keys)
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be served"):
        S3Server(tmp_path / "file", **keys)
    with pytest.raises(StorageError, match="cannot be served"):
        S3Server("/proc/nowhere", **keys)
    with pytest.raises(ConfigError, match="access key"):
        S3Server(tmp_path / "other", access_key="", secret_key="x")


def test_a_closed_server_leaves_only_objects(tmp_path: Path) -> None:
    with serving(tmp_path) as server, stranger(server.endpoint) as s3:
        put(s3, "key")
        assert server.statistics().bytes_received == 1
    server.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["models"]


def test_a_server_that_is_not_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OKA_S3_SERVER", "/nowhere/oka-s3-server")
    with pytest.raises(ConfigError, match=r"(?s)no /nowhere/oka-s3-server.*make s3-server"):
        S3Server(tmp_path, access_key="mine", secret_key="secret")


def test_a_server_that_has_ended_says_so(server: S3Server) -> None:
    os.kill(server.pid, signal.SIGKILL)
    with pytest.raises(StorageError, match="has ended: status -9"):
        server.statistics()
    server.close()


def test_a_server_ends_with_whoever_started_it(tmp_path: Path) -> None:
    program = f"""
import signal
from engine.programs.s3_server import S3Server
server = S3Server({str(tmp_path)!r}, access_key="mine", secret_key="secret")
print(server.pid, flush=True)
signal.pause()
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        assert psutil.pid_exists(pid)
        starter.kill()
    wait_until(lambda: not psutil.pid_exists(pid))
