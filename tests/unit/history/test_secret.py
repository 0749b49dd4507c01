"""Secrets never get into a history; what only looks a little like one does."""

from __future__ import annotations

import json
import time

import pytest

from engine.history.secret import Secrets

TOKEN = 'it\'s \\a\n "token"'
SECRETS = Secrets(
    {
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG",
        "DATABASE_URL": "postgres://app:hunter2-long@db/app",
        "MY_TOKEN": TOKEN,
        "GITHUB_TOKEN": "password",
        "TOKEN_FILE": "/run/secrets/token",
        "HOME": "/home/somebody",
        "PIN_SECRET": "1234",
    }
)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("retry with wJalrXUtnFEMI/K7MDENG", "wJalrXUtnFEMI"),
        ("GET /?q=wJalrXUtnFEMI%2FK7MDENG", "wJalrXUtnFEMI"),
        ("auth failed for 'hunter2-long'", "hunter2-long"),
        ("kafka://user:sesame@broker:9092", "sesame"),
        (f"it was {TOKEN!r}", "a\\\\n"),
        (f"it was {json.dumps(TOKEN)}", "a\\\\n"),
        ("password=sesame", "sesame"),
        ("password = 'open sesame'", "sesame"),
        ("{'user': 'me', 'password': 'open, sesame'}", "sesame"),
        ('{"apiKey":"sesame-1"}', "sesame"),
        ("sasl.password: sesame", "sesame"),
        ("Config(client_secret='sesame', n=1)", "sesame"),
        ("api_key=>sesame", "sesame"),
        ("--access-key sesame --secret=sesame2", "sesame2"),
        ("Authorization: Bearer abcdefgh.ijkl", "abcdefgh"),
        ("authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("token is Bearer abcdefgh12", "abcdefgh12"),
        ("https://s3/x?X-Amz-Signature=abc123&X-Amz-Credential=AK/1", "abc123"),
        ("https://blob/x?sv=1&sig=abc%2B123", "abc%2B123"),
        ("key AKIAIOSFODNN7EXAMPLE was refused", "AKIAIOSFODNN7EXAMPLE"),
        ("ghp_0123456789abcdefghij0123", "ghp_0123"),
        ("eyJhbGciOiJIUzI1.eyJzdWIiOiIx.c2lnbmF0dXJl", "eyJhbGciOiJIUzI1"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----", "MIIEow"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEow", "MIIEow"),
        ("AccountKey=abcdef==;EndpointSuffix=core", "abcdef"),
    ],
)
def test_a_secret_is_masked(text: str, secret: str) -> None:
    masked = SECRETS.masked(text)
    assert secret not in masked
    assert "***" in masked
    assert SECRETS.masked(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=512",
        "{'key': 'abc', 'tokenizer': 'wordpiece', 'n_tokens': 12}",
        "KeyError: 'password'",
        "operator 'passwords' failed on record ('a', 1)",
        "read /run/secrets/token and /home/somebody",
        "s3://bucket/prefix at http://127.0.0.1:9000/",
        "author: Ann; monkey: 'ape'; the secret of success",
        "password=None, token=<redacted>, secret: True",
        "hash by 'key'",
        "basic arithmetic with a bearer certificate",
        "1234 records with the password",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert SECRETS.masked(text) == text


def test_settings_under_the_name_of_a_secret_are_masked() -> None:
    settings = {"s3_secret_key": "x", "nested": [{"token": "y"}], "seconds": 1.0, "on": True}
    assert SECRETS.without(settings) == {
        "s3_secret_key": "***",
        "nested": [{"token": "***"}],
        "seconds": 1.0,
        "on": True,
    }


@pytest.mark.parametrize(
    "piece", ["a", "a.", "token", "token=", "password='", "x://", "basic ", "?sig="]
)
def test_long_texts_take_no_long_time(piece: str) -> None:
    began = time.process_time()
    SECRETS.masked(piece * (20_000 // len(piece)))
    assert time.process_time() - began < 2.0
