"""`oka s3 serve`: an S3 server on a folder of this machine, for development and tests."""

from __future__ import annotations

import ipaddress
import re
import secrets
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import click

from engine.cli.help import Group
from engine.errors import ConfigError
from engine.programs.s3_server import S3Server, ServerStatistics
from engine.units import counted


@click.group("s3", cls=Group)
def command() -> None:
    """Objects in S3: a server for development and tests."""


@command.command()
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the buckets [a temporary one, removed at the end].",
)
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@click.option("--port", default=9000, help="0 picks one.")
@click.option("--bucket", "buckets", multiple=True, metavar="NAME", help="Bucket to make.")
@click.option("--access-key", envvar="OKA_S3_ACCESS_KEY", help="[OKA_S3_ACCESS_KEY, or made up]")
@click.option(
    "--secret-key",
    envvar="OKA_S3_SECRET_KEY",
    help="[OKA_S3_SECRET_KEY, which no list of processes shows, or made up]",
)
@click.option("--role", "roles", multiple=True, metavar="ARN", help="Role that may be assumed.")
@click.option(
    "--web-identity-token-file",
    type=click.Path(path_type=Path),
    help="File whose content is the web identity token that is accepted.",
)
@click.option("--region", default="us-east-1")
def serve(
    folder: Path | None,
    host: str,
    port: int,
    buckets: tuple[str, ...],
    access_key: str | None,
    secret_key: str | None,
    roles: tuple[str, ...],
    web_identity_token_file: Path | None,
    region: str,
) -> None:
    """Serve S3's protocol until Ctrl-C; prints what clients have to set.

    A folder in --folder is a bucket, a file below that an object; the files may be put there by
    other means, too. It is not encrypted and keeps no metadata: for development and tests.
    """
    given = access_key is not None and secret_key is not None
    if (access_key is None) != (secret_key is None):
        raise ConfigError("only one of the access key and the secret key is given, expected both")
    if not given and not _is_loopback(host):
        raise ConfigError(
            f"--host {host} can be reached from other machines, but no keys are given",
            "set OKA_S3_ACCESS_KEY and OKA_S3_SECRET_KEY to keys of your own",
        )
    for bucket in buckets:
        if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", bucket):
            raise ConfigError(
                f"--bucket is {bucket!r}, expected 3 to 63 lower-case letters, digits, '.', '-'"
            )
    access = access_key or "OKA" + secrets.token_hex(8).upper()
    secret = secret_key or secrets.token_urlsafe(30)
    with ExitStack() as stack:
        root = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oka-s3-")))
        server = stack.enter_context(
            S3Server(
                root,
                host,
                port,
                access_key=access,
                secret_key=secret,
                region=region,
                roles=roles,
                web_identity_token_file=web_identity_token_file,
            )
        )
        for bucket in buckets:
            (root / bucket).mkdir(exist_ok=True)
        shown = '"$OKA_S3_SECRET_KEY"' if given else secret
        click.echo(f"serving {root} at {server.endpoint}; Ctrl-C ends it\n")
        click.echo(f"export AWS_ENDPOINT_URL={server.endpoint}")
        click.echo(f"export AWS_ACCESS_KEY_ID={access}")
        click.echo(f"export AWS_SECRET_ACCESS_KEY={shown}")
        click.echo(f"export AWS_REGION={region}")
        sys.stdout.flush()
        started = time.monotonic()
        try:
            _watch(server)
        except KeyboardInterrupt:
            pass
        finally:
            seconds = time.monotonic() - started
            click.echo(f"\n{_summary(server.statistics())} in {seconds:.0f} s")


def _watch(server: S3Server) -> None:
    """Wait for ever, with a line of what went through where somebody sees it."""
    shown = ""
    while True:
        time.sleep(0.5)
        now = _summary(server.statistics())
        if sys.stderr.isatty() and now != shown:
            click.echo(f"\r\x1b[K{now}", nl=False, err=True)
            shown = now


def _summary(statistics: ServerStatistics) -> str:
    requests = counted(statistics.requests, "request")
    sent, received = statistics.bytes_sent / 1e6, statistics.bytes_received / 1e6
    return f"{requests}, {sent:,.1f} MB sent, {received:,.1f} MB received"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
