"""Settings from variables of the environment: below the command line, above code and files."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from click.testing import CliRunner

import engine
from engine.cli.main import commands, read_config
from engine.config import JobConfig
from engine.environment import configured
from engine.errors import ConfigError
from operators import source
from operators.sinks import Collect
from operators.sources import Collection

OPTIONS: dict[str, Any] = {"insecure": False, "more": ()}
TEXTS = {
    "name": ("hourly", "hourly"),
    "runtime": ("ray", "ray"),
    "parallelism": ("3", 3),
    "linger_ms": ("0.5", 0.5),
    "strict_placement": ("true", True),
    "encryption": ("false", False),
    "port_range": ("20000-20999", "20000-20999"),
    "resources": ('{"*": {"operator_slot": 1}}', {"*": {"operator_slot": 1}}),
    "metrics_port": ("0", 0),
    "ui_port": ("none", None),
    "drop_state": ("a,b", ("a", "b")),
    "native": ("off", "off"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_variable_has_the_type_of_its_setting(name: str) -> None:
    text, value = TEXTS[name]
    found = getattr(configured({}, variables={f"OKA_{name.upper()}": text}), name)
    assert (found, type(found)) == (value, type(value))


def test_each_setting_has_a_variable() -> None:
    defaults = {
        field.name: getattr(JobConfig(), field.name) for field in dataclasses.fields(JobConfig)
    }
    texts = {
        f"OKA_{name.upper()}": "[]" if value == () else str(value).lower()
        for name, value in defaults.items()
    }
    assert configured(dict.fromkeys(defaults), variables=texts) == JobConfig()


def test_the_command_line_wins_over_it_and_it_over_files_and_code(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "job.toml"
    file.write_text('name = "file"\nparallelism = 2\nbatch_size = 2\nlinger_ms = 2.0\n')
    monkeypatch.setenv("OKA_BATCH_SIZE", "3")
    monkeypatch.setenv("OKA_LINGER_MS", "3")
    config = read_config("code", {**OPTIONS, "config": str(file), "more": ("linger-ms=4",)})
    assert (config.name, config.parallelism, config.batch_size, config.linger_ms) == (
        ("file", 2, 3, 4.0)
    )
    monkeypatch.setenv("OKA_NAME", "environment")
    assert read_config("code", OPTIONS).name == "environment"
    monkeypatch.setenv("OKA_LINGER_MS", "wrong")  # nobody asks for it
    assert read_config("code", {**OPTIONS, "more": ("linger_ms=4",)}).linger_ms == 4.0


@pytest.mark.parametrize("given", ["config", "dict", "settings"])
def test_a_program_is_told(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OKA_BATCH_SIZE", "2")
    monkeypatch.setenv("OKA_HISTORY", "off")
    pipeline = source(Collection([1, 2, 3, 4])).map_batches(lambda batch: [len(batch)])
    settings: dict[str, Any] = {"batch_size": 3, "progress": "none"}
    forms: dict[str, tuple[list[Any], dict[str, Any]]] = {
        "config": ([JobConfig(**settings)], {}),
        "dict": ([settings], {}),
        "settings": ([], settings),
    }
    positional, named = forms[given]
    done = engine.execute(pipeline.sink(Collect()), *positional, **named)
    assert done.output == [2, 2]


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"OKA_PARALLELISM": "two"}, "OKA_PARALLELISM is 'two', expected int"),
        ({"OKA_PARALLELISM": "0"}, "parallelism is 0.*\n\nhint: the variable OKA_PARALLELISM says"),
        ({"OKA_RUNTIME": "Ray"}, "OKA_RUNTIME is 'Ray', expected local | ray"),
        ({"OKA_ENCRYPTION": "maybe"}, "OKA_ENCRYPTION is 'maybe', expected bool"),
        ({"OKA_RESUME": "latest"}, "resume is 'latest' and checkpoints is None"),
    ],
)
def test_a_wrong_text_is_refused_with_its_variable(variables: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        configured({}, variables=variables)


def test_others_are_left_alone_and_a_misspelt_one_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    variables = {"OKA_DEBUG": "1", "OKA_CACHE": "/tmp", "OKA_RESUME": "", "PARALLELISM": "9"}
    assert configured({}, variables=variables) == JobConfig()
    assert caplog.messages == []
    assert configured({}, variables={"OKA_PARALELISM": "9"}) == JobConfig()
    assert caplog.messages == ["OKA_PARALELISM sets nothing: did you mean 'parallelism'?"]


def test_a_plan_of_the_command_line_has_it(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job.py").write_text(
        "import oka\npipeline = oka.source(oka.sources.Collection([1])).rebalance()"
        ".map(str).sink(oka.sinks.Collect())\n"
    )
    monkeypatch.setenv("OKA_PARALLELISM", "3")
    done = CliRunner().invoke(commands, ["plan", str(tmp_path / "job.py")], catch_exceptions=False)
    assert "× 3" in done.output or "x3" in done.output, done.output
