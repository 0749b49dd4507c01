"""The S3 client against our server, which boto3 has looked at in test_s3_server."""

from __future__ import annotations

import array
import http.server
import json
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import ConfigError, StorageError
from engine.programs.s3_server import S3Server
from engine.s3 import S3
from tests.integration.s3_server import ACCESS_KEY, ROLE, SECRET_KEY, serving, stranger

SECRETS = (SECRET_KEY, "not the secret", "a.web.token")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials but those of the test."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    (tmp_path / "home/.aws").mkdir(parents=True)


@pytest.fixture
def keys(clean: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    with serving(tmp_path / "objects") as server:
        yield server


@pytest.fixture
def s3(server: S3Server, keys: None) -> S3:
    return S3.open("s3://models/v1", endpoint=server.endpoint, part_bytes=1 << 20)


def failing(code: str, *words: str) -> Any:
    """An error with this code that holds these words and no secret."""

    def check(error: StorageError) -> bool:
        text = str(error)
        assert not any(secret in text for secret in SECRETS), text
        assert error.code == code, f"{error.code}: {text}"
        assert all(word in text for word in words), text
        return True

    return _Failing(check)


class _Failing:
    def __init__(self, check: Callable[[StorageError], bool]) -> None:
        self._check = check
        self._raises = pytest.raises(StorageError)

    def __enter__(self) -> None:
        self._caught = self._raises.__enter__()

    def __exit__(self, *error: Any) -> bool:
        passed = bool(self._raises.__exit__(*error))
        if passed:
            self._check(self._caught.value)
        return passed


def test_nested_and_empty_objects(s3: S3) -> None:
    assert s3.list() == []
    s3.put("config.json", b"{}")
    s3.put("empty", b"")
    s3.put("deep/er/ä b+%.bin", array.array("d", [1.0, 2.0]))
    listed = [("config.json", 2), ("deep/er/ä b+%.bin", 16), ("empty", 0)]
    assert s3.list() == listed
    assert s3.list("deep") == s3.list("deep/") == [("deep/er/ä b+%.bin", 16)]
    assert s3.list("dee") == []
    assert s3.get("deep/er/ä b+%.bin") == array.array("d", [1.0, 2.0]).tobytes()
    assert s3.get("empty") == b""
    s3.get_into("empty", bytearray())
    whole = S3.open("s3://models", endpoint=s3.endpoint)
    assert whole.list() == [(f"v1/{key}", size) for key, size in listed]
    one = S3.open("s3://models/v1/config.json", endpoint=s3.endpoint)
    assert one.list() == [("", 2)]
    assert one.get("") == b"{}"
    s3.delete(["config.json", "empty", "never/there", "deep/er/ä b+%.bin"])
    s3.delete([])
    assert whole.list() == []


def test_more_objects_than_a_page(s3: S3) -> None:
    folder = Path(s3.endpoint and os.environ["HOME"]).parent / "objects/models/v1"
    folder.mkdir()
    for number in range(2100):
        (folder / f"{number:04}").touch()
    assert s3.list() == [(f"{number:04}", 0) for number in range(2100)]
    s3.delete([key for key, _ in s3.list()])
    assert s3.list() == []


def test_parallel_ranges_are_the_object(s3: S3, tmp_path: Path) -> None:
    data = np.random.default_rng(7).integers(0, 256, 20_000_001, dtype=np.uint8)
    s3.put("large", data)  # in parts
    into = np.zeros_like(data)
    s3.get_into("large", into)
    assert np.array_equal(into, data)
    (tmp_path / "file").write_bytes(data.tobytes())
    s3.put_file("file", tmp_path / "file")
    for parallel, part_bytes in ((1, 1 << 30), (3, 1_234_567), (16, 20_000_001)):
        other = S3.open(s3.url, endpoint=s3.endpoint, parallel=parallel, part_bytes=part_bytes)
        into[:] = 0
        other.get_into("file", into)
        assert np.array_equal(into, data)
    doubles = np.zeros(1000, dtype=np.float64)
    s3.put("doubles", np.arange(1000.0))
    s3.get_into("doubles", doubles)
    assert np.array_equal(doubles, np.arange(1000.0))


def test_buffers_that_do_not_fit(s3: S3) -> None:
    s3.put("key", b"12345")
    for size in (0, 4, 6, 3 << 20):
        with failing("Size", f"the object has 5 bytes, the buffer {size}"):
            s3.get_into("key", bytearray(size))
    s3.put("empty", b"")
    with failing("Size", "the object has 0 bytes, the buffer 5"):
        s3.get_into("empty", bytearray(5))
    with pytest.raises(BufferError):
        s3.get_into("key", b"12345")
    with pytest.raises(TypeError):
        s3.get_into("key", np.zeros((5, 2), dtype=np.uint8)[:, 0])


def test_an_object_that_changes_while_it_is_read(keys: None) -> None:
    with _replacing() as endpoint:
        s3 = S3.open("s3://models", endpoint=endpoint, part_bytes=1000, parallel=1, retries=0)
        with failing("Changed", "changed while it was read", "s3://models/key", "hint:"):
            s3.get_into("key", bytearray(5000))


def test_what_s3_says_is_told(s3: S3, tmp_path: Path) -> None:
    missing = S3.open("s3://not-there", endpoint=s3.endpoint)
    for call in (
        lambda: missing.list(),
        lambda: missing.get("key"),
        lambda: missing.put("key", b"x"),
        lambda: missing.put("key", bytes(20 << 20)),
        lambda: missing.delete(["key"]),
    ):
        with failing("NoSuchBucket", "not-there", s3.endpoint, "hint:"):
            call()
    for call in (lambda: s3.get("none"), lambda: s3.get_into("none", bytearray(9 << 20))):
        with failing("NoSuchKey", "s3://models/v1/none", s3.endpoint, "hint:"):
            call()
    with failing("Invalid"):
        s3.put("a//b", b"x")
    for path, why in ((tmp_path / "none", "No such file or directory"), (tmp_path, "not a file")):
        with pytest.raises(StorageError) as caught:
            s3.put_file("key", path)
        place = "to be written to s3://models/v1/key"
        assert caught.value.code == "File"
        assert caught.value.message.startswith(
            f"a file of this machine, {place}, cannot be read: {path}: "
        )
        assert why in caught.value.message
        assert s3.endpoint not in caught.value.message
        assert caught.value.hint == "check the path; S3 had no part in it"


def test_settings_that_cannot_work(keys: None) -> None:
    for url in ("models", "http://models/x", "s3://", "s3:///key"):
        with pytest.raises(ConfigError, match="expected s3://bucket/prefix"):
            S3.open(url)
    with pytest.raises(ConfigError, match="expected a URL"):
        S3.open("s3://models", endpoint="localhost:9000")
    with pytest.raises(ConfigError, match="parallel=0"):
        S3.open("s3://models", parallel=0)


def test_wrong_credentials(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def using(key: str, secret: str, token: str | None = None) -> S3:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
        if token is not None:
            monkeypatch.setenv("AWS_SESSION_TOKEN", token)
        return S3.open("s3://models", endpoint=server.endpoint)

    for call in (S3.list, lambda s3: s3.get("key"), lambda s3: s3.put("key", b"x")):
        with failing("SignatureDoesNotMatch", "hint:", "secret key"):
            call(using(ACCESS_KEY, "not the secret"))
        with failing("InvalidAccessKeyId", "hint:"):
            call(using("nobody", SECRET_KEY))
    with failing("InvalidToken", "hint:", "AWS_SESSION_TOKEN"):
        using(ACCESS_KEY, SECRET_KEY, "a.web.token").list()


def test_no_credentials(server: S3Server) -> None:
    with failing("NoCredentials", "hint: set AWS_ACCESS_KEY_ID"):
        S3.open("s3://models", endpoint=server.endpoint).list()


def test_a_role_by_its_arn(server: S3Server, keys: None) -> None:
    s3 = S3.open("s3://models", endpoint=server.endpoint, role_arn=ROLE)
    s3.put("key", b"by the role")
    assert s3.get("key") == b"by the role"
    other = S3.open("s3://models", endpoint=server.endpoint, role_arn=ROLE + "x")
    with failing("AccessDenied", "token service", "AssumeRole", ROLE + "x", "hint:"):
        other.list()


def test_credentials_of_a_role_are_renewed(tmp_path: Path, keys: None) -> None:
    with serving(tmp_path / "objects", session_seconds=1.2) as server:
        s3 = S3.open("s3://models", endpoint=server.endpoint, role_arn=ROLE)
        s3.put("key", b"x")
        requests = server.statistics().requests
        time.sleep(1.3)
        assert s3.get("key") == b"x"
        assert server.statistics().requests == requests + 3  # one more than without a renewal


def test_a_web_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean: None) -> None:
    file = tmp_path / "token"
    file.write_text("a.web.token")
    monkeypatch.setenv("AWS_ROLE_ARN", ROLE)
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(file))
    with serving(tmp_path / "objects", web_identity_token_file=file) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        s3 = S3.open("s3://models")
        s3.put("key", b"x")
        assert s3.get("key") == b"x"
        (tmp_path / "wrong").write_text("another.token")
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "wrong"))
        with failing("InvalidIdentityToken", "hint:"):
            S3.open("s3://models").list()
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "none"))
        with failing("WebIdentityToken", str(tmp_path / "none")):
            S3.open("s3://models").list()


def test_profiles(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aws = tmp_path / "home/.aws"
    (aws / "credentials").write_text(
        f"[base]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key={SECRET_KEY}\n"
    )
    (aws / "config").write_text(
        f"[default]\nregion = eu-west-1\n\n[profile reader]\nrole_arn = {ROLE}\n"
        f"source_profile = base\nendpoint_url = {server.endpoint}\n"
        "[profile single]\nsso_session = x\n[profile loop]\nrole_arn = r\nsource_profile = pool\n"
        "[profile pool]\nrole_arn = r\nsource_profile = loop\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "base")
    S3.open("s3://models", endpoint=server.endpoint).put("key", b"x")
    monkeypatch.setenv("AWS_PROFILE", "reader")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.endpoint)
    assert S3.open("s3://models").get("key") == b"x"
    for profile, words in (
        ("nobody", "does not exist"),
        (
            "single",
            "uses sso_session, which is not supported: in another profile, `credential_process",
        ),
        ("loop", "is its own source"),
    ):
        monkeypatch.setenv("AWS_PROFILE", profile)
        with failing("Profile", words):
            S3.open("s3://models", endpoint=server.endpoint)


def printing(tmp_path: Path, text: str, then: str = "exit 0") -> Path:
    """A program for `credential_process`, whose runs are lines of the file `runs`."""
    program = tmp_path / "print-keys"
    program.write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\ncat <<'E'\n{text}\nE\n{then}\n")
    program.chmod(0o755)
    config = tmp_path / "home/.aws/config"
    config.write_text(
        f"[default]\ncredential_process = {program} --for oka\n"
        f"[profile role]\nrole_arn = {ROLE}\nsource_profile = default\n"
    )
    return tmp_path / "runs"


def printed(**more: Any) -> str:
    keys = {"AccessKeyId": ACCESS_KEY, "SecretAccessKey": SECRET_KEY}
    return json.dumps({"Version": 1, **keys, **more})


@pytest.mark.parametrize(
    ("expires", "runs"), [(None, 1), ("2999-01-01T00:00:00+02:00", 1), ("2000-01-01T00:00:00Z", 2)]
)
def test_credentials_that_a_process_prints(
    server: S3Server, tmp_path: Path, expires: str | None, runs: int
) -> None:
    ran = printing(tmp_path, printed(Expiration=expires))
    s3 = S3.open("s3://models", endpoint=server.endpoint)
    assert not ran.exists()
    for _ in range(2):
        assert s3.list() == []
    assert ran.read_text() == "run\n" * runs


def test_a_role_by_credentials_of_a_process(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printing(tmp_path, printed())
    monkeypatch.setenv("AWS_PROFILE", "role")
    assert S3.open("s3://models", endpoint=server.endpoint).list() == []


@pytest.mark.parametrize(
    ("text", "then", "problem"),
    [
        (printed(), "exit 3", "ended with exit status: 3"),
        (SECRET_KEY, "exit 0", "printed no JSON"),
        (json.dumps([SECRET_KEY]), "exit 0", "printed no credentials of version 1"),
        (printed(Version=2), "exit 0", "printed no credentials of version 1"),
        (printed(SecretAccessKey=5), "exit 0", "printed no SecretAccessKey"),
        (printed(Expiration=SECRET_KEY), "exit 0", "printed an Expiration that is no time"),
    ],
)
def test_a_process_that_prints_none(
    server: S3Server, tmp_path: Path, text: str, then: str, problem: str
) -> None:
    printing(tmp_path, text, then)
    words = f'the credential_process of the profile "default" {problem}'
    with failing("CredentialProcess", words, "hint:"):
        S3.open("s3://models", endpoint=server.endpoint).list()


def test_a_process_ends_with_the_call_that_waits_for_it(server: S3Server, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    printing(tmp_path, "", f"sleep 1000 > {pipe}\ntrue")

    def interrupt() -> None:
        with pipe.open("rb") as alive:
            os.kill(os.getpid(), signal.SIGINT)
            ended.append(alive.read())  # comes to its end with the last that has it open

    ended: list[bytes] = []
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        S3.open("s3://models", endpoint=server.endpoint).list()
    thread.join(30)
    assert ended == [b""]


def test_the_environment_names_the_endpoint(
    server: S3Server, keys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert S3.open("s3://models", region="eu-west-1").endpoint.endswith("eu-west-1.amazonaws.com")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.endpoint + "/")
    assert S3.open("s3://models").list() == []


def test_an_upload_that_fails_leaves_nothing(s3: S3, tmp_path: Path) -> None:
    s3.put("blocker", b"x")
    with failing("KeyConflict"):
        s3.put("blocker/below", bytes(20 << 20))
    left = [path for path in (tmp_path / "objects").rglob("*") if path.is_file()]
    assert left == [tmp_path / "objects/models/v1/blocker"]


def test_a_server_that_goes_away(tmp_path: Path, keys: None) -> None:
    with serving(tmp_path) as server:
        s3 = S3.open("s3://models", endpoint=server.endpoint, retries=2)
        s3.put("key", b"x")
        server.close()
        with failing("Unreachable", "no answer", server.endpoint, "hint:"):
            s3.get("key")


def test_errors_that_pass_are_tried_again(keys: None) -> None:
    with _failing_at_first(2) as (endpoint, asked):
        s3 = S3.open("s3://models", endpoint=endpoint, retries=3)
        buffer = bytearray(5)
        s3.get_into("key", buffer)
        assert (bytes(buffer), len(asked)) == (b"hello", 3)
    with _failing_at_first(100) as (endpoint, asked):
        s3 = S3.open("s3://models", endpoint=endpoint, retries=1)
        with failing("SlowDown", "S3 answered SlowDown"):
            s3.get_into("key", buffer)
        assert len(asked) == 2


def test_a_cut_connection_goes_on_where_it_was(keys: None) -> None:
    with _cutting() as (endpoint, asked):
        s3 = S3.open("s3://models", endpoint=endpoint, retries=3)
        buffer = bytearray(1000)
        s3.get_into("key", buffer)
        assert bytes(buffer) == bytes(index % 251 for index in range(1000))
        assert asked == ["bytes=0-999", "bytes=400-999"]


def test_a_server_that_goes_away_in_the_middle(keys: None) -> None:
    with _cutting() as (endpoint, asked):
        asked.append("gone")  # from the second request on
        s3 = S3.open("s3://models", endpoint=endpoint, retries=2)
        with failing("Unreachable", "s3://models/key", "hint:"):
            s3.get_into("key", bytearray(1000))
        assert asked.count("bytes=400-999") == 2


def test_interrupts_end_a_call(keys: None) -> None:
    listener = socket.create_server(("127.0.0.1", 0))  # which never answers
    s3 = S3.open("s3://models", endpoint=f"http://127.0.0.1:{listener.getsockname()[1]}")

    def interrupt() -> None:
        with listener.accept()[0]:  # the call is under way, and goes on until it is interrupted
            os.kill(os.getpid(), signal.SIGINT)
            ended.wait()

    for call in (lambda: s3.get("key"), lambda: s3.put("key", bytes(30 << 20))):
        ended = threading.Event()
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            call()
        ended.set()
        thread.join()
    listener.close()


def test_calls_from_several_threads(s3: S3) -> None:
    def work(number: int) -> None:
        data = bytes([number]) * (2 << 20)
        s3.put(str(number), data)
        assert s3.get(str(number)) == data
        done.append(number)

    done: list[int] = []
    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(done) == list(range(6))


def test_errors_travel(s3: S3) -> None:
    with pytest.raises(StorageError) as caught:
        s3.get("none")
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.code, error.hint, str(error)) == (
        caught.value.code,
        caught.value.hint,
        str(caught.value),
    )


def test_boto3_reads_what_we_wrote(s3: S3, server: S3Server) -> None:
    data = os.urandom(9 << 20)
    s3.put("key", data)
    with stranger(server.endpoint) as boto:
        assert boto.get_object(Bucket="models", Key="v1/key")["Body"].read() == data


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers GET by what `answer` of the server says: status, headers, body."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        wanted = self.headers["Range"]
        asked = self.server.asked  # type: ignore[attr-defined]
        asked.append(wanted)
        if asked[0] == "gone" and len(asked) > 2:
            self.close_connection = True
            return
        status, headers, body = self.server.answer(wanted)  # type: ignore[attr-defined]
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        if int(headers.get("Content-Length", len(body))) != len(body):
            self.close_connection = True

    def log_message(self, *arguments: Any) -> None:
        pass


class _Answering:
    def __init__(self, answer: Callable[[str], tuple[int, dict[str, str], bytes]]) -> None:
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._server.answer = answer  # type: ignore[attr-defined]
        self._server.asked = self.asked = []  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> tuple[str, list[str]]:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_port}", self.asked

    def __exit__(self, *error: Any) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _about(tag: str, first: int, last: int, size: int) -> dict[str, str]:
    return {
        "ETag": f'"{tag}"',
        "Last-Modified": "Sat, 21 Nov 2026 12:00:00 GMT",
        "Content-Range": f"bytes {first}-{last}/{size}",
    }


class _replacing:  # noqa: N801 - used as a function
    """S3 with an object that is another one after the first range."""

    def __enter__(self) -> str:
        asked = []

        def answer(wanted: str) -> tuple[int, dict[str, str], bytes]:
            asked.append(wanted)
            if len(asked) > 1:
                text = b"<Error><Code>PreconditionFailed</Code><Message>no</Message></Error>"
                return 412, {}, text
            return 206, _about("one", 0, 999, 5000), bytes(1000)

        self._server = _Answering(answer)
        return self._server.__enter__()[0]

    def __exit__(self, *error: Any) -> None:
        self._server.__exit__(*error)


def _failing_at_first(times: int) -> _Answering:
    count = []

    def answer(_wanted: str) -> tuple[int, dict[str, str], bytes]:
        count.append(1)
        if len(count) <= times:
            text = b"<Error><Code>SlowDown</Code><Message>Please reduce.</Message></Error>"
            return 503, {}, text
        return 206, _about("one", 0, 4, 5), b"hello"

    return _Answering(answer)


def _cutting() -> _Answering:
    data = bytes(index % 251 for index in range(1000))

    def answer(wanted: str) -> tuple[int, dict[str, str], bytes]:
        if wanted == "bytes=0-999":
            return 206, {**_about("one", 0, 999, 1000), "Content-Length": "1000"}, data[:400]
        return 206, _about("one", 400, 999, 1000), data[400:]

    return _Answering(answer)
