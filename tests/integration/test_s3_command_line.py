"""`oka s3 serve` and `oka bench s3` as real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.s3_server import stranger

ROOT = Path(__file__).parents[2]
OKA = [sys.executable, "-c", "from engine.cli.main import main; main()"]


def environment(**settings: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {**kept, "PYTHONPATH": str(ROOT), "AWS_EC2_METADATA_DISABLED": "true", **settings}


def oka(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*OKA, *arguments],
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@contextmanager
def server(*arguments: str, **settings: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*OKA, "s3", "serve", *arguments],
        env=environment(**settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=300)


def printed(process: subprocess.Popen[str]) -> dict[str, str]:
    """The `export` lines, and the folder as `folder`."""
    assert process.stdout is not None
    found: dict[str, str] = {}
    for line in process.stdout:
        if serving := re.match("serving (.*) at ", line):
            found["folder"] = serving[1]
        elif export := re.match("export ([A-Z_]+)=(.*)$", line):
            found[export[1]] = export[2]
        if "AWS_REGION" in found:
            return found
    raise AssertionError(process.communicate(timeout=300))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_until_it_is_stopped(number: signal.Signals) -> None:
    with server("--port", "0", "--bucket", "models") as process:
        found = printed(process)
        folder = Path(found["folder"])
        key, secret = found["AWS_ACCESS_KEY_ID"], found["AWS_SECRET_ACCESS_KEY"]
        with stranger(found["AWS_ENDPOINT_URL"], key=key, secret=secret) as s3:
            s3.put_object(Bucket="models", Key="a/b", Body=b"x" * 1_500_000)
            assert (folder / "models/a/b").stat().st_size == 1_500_000
        process.send_signal(number)
        output, errors = process.communicate(timeout=300)
        assert process.returncode == (0 if number == signal.SIGINT else 143)
        assert "1.5 MB received" in output
        assert "Traceback" not in errors
        assert not folder.exists()


def test_serve_a_folder_with_keys_of_ones_own(tmp_path: Path) -> None:
    keys = {"OKA_S3_ACCESS_KEY": "mine", "OKA_S3_SECRET_KEY": "my-own-secret"}
    with server("--port", "0", "--folder", str(tmp_path), "--bucket", "models", **keys) as process:
        found = printed(process)
        assert found["AWS_SECRET_ACCESS_KEY"] == '"$OKA_S3_SECRET_KEY"'
        with stranger(found["AWS_ENDPOINT_URL"], key="mine", secret="my-own-secret") as s3:
            s3.put_object(Bucket="models", Key="key", Body=b"x")
        again = oka("s3", "serve", "--port", found["AWS_ENDPOINT_URL"].rsplit(":", 1)[1])
        assert again.returncode == 1
        assert "in use" in again.stderr
        assert "hint: another program listens there" in again.stderr
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=300)
        assert "my-own-secret" not in output + errors
    assert (tmp_path / "models/key").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "can be reached from other machines, but no keys are given"),
        (["--bucket", "Models"], "--bucket is 'Models', expected 3 to 63"),
        (["--access-key", "only"], "only one of the access key and the secret key"),
    ],
)
def test_what_serve_refuses(arguments: list[str], message: str) -> None:
    done = oka("s3", "serve", "--port", "0", *arguments)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


@pytest.mark.again_on_ray
@pytest.mark.ray
def test_the_benchmark_writes_and_reads(tmp_path: Path) -> None:
    keys, store = tmp_path / "keys.json", tmp_path / "store"
    shared = ["--keys-file", str(keys), "--serve", str(store), "--json", str(tmp_path / "out.json")]
    made = ["--bucket-url", "s3://bench/run", "--objects", "3", "--mb", "2", "--seed", "5"]
    plot = ["--plot", str(tmp_path / "plot.png")]
    done = oka("bench", "s3", "write", *made, *shared, *plot)
    assert done.returncode == 0, done.stderr
    assert "3 of 3" in done.stdout
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    result = json.loads((tmp_path / "out.json").read_text())
    assert (result["schema"], result["operation"]) == ("oka.bench.s3/1", "write")
    assert all(job["stop"] > job["start"] and job["error"] is None for job in result["jobs"])
    one, other, _ = sorted(path for path in store.rglob("*") if path.is_file())
    other.write_bytes(one.read_bytes())  # an object that is not what was written
    one.unlink()
    done = oka("bench", "s3", "read", *shared)
    assert done.returncode == 1
    assert "2 of 3 jobs failed" in done.stderr
    errors = [job["error"] for job in json.loads((tmp_path / "out.json").read_text())["jobs"]]
    assert "NoSuchKey" in errors[0]
    assert "is not what was written" in errors[1]
    assert errors[2] is None


def test_the_benchmark_says_what_is_wrong_before_ray_starts(tmp_path: Path) -> None:
    keys = ["--keys-file", str(tmp_path / "keys.json")]
    made = ["--bucket-url", "s3://bench/run", "--endpoint", "http://127.0.0.1:1"]
    done = oka("bench", "s3", "write", *made, *keys)
    assert (done.returncode, "NoCredentials" in done.stderr or "no credentials" in done.stderr) == (
        1,
        True,
    ), done.stderr
    done = oka("bench", "s3", "read", *keys)
    assert (done.returncode, "cannot be read" in done.stderr) == (2, True), done.stderr
    assert list(tmp_path.iterdir()) == []
