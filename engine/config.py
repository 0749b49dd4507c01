"""The settings of one job: a frozen, validated dataclass, also readable from a file."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from engine.errors import ConfigError, did_you_mean
from engine.resources import check_names

Runtime = Literal["local", "ray"]
Strategy = Literal["auto", "operator_first", "parallelism_first"]
Transport = Literal["auto", "shm", "ipc", "tcp"]
Progress = Literal["auto", "line", "json", "none"]
Native = Literal["auto", "require", "off", "check"]


@dataclass(frozen=True)
class JobConfig:
    """Settings of a job: arguments of `execute`, or a config of their own.

    name: what the job is called in messages and results.

    runtime: `local`: worker processes on this machine; `ray`: actors on the connected Ray cluster.

    parallelism: tasks per operator, where the operator does not say. Each task is one process.

    batch_size: most records in a batch that leaves a source. Larger: less overhead, more latency.

    linger_ms: longest a record may wait for company in a channel over a socket, in ms. 0: it leaves
    at once. In shared memory it always does.

    placement: `operator_first`: a node runs one operator; `parallelism_first`: tasks i share one;
    `auto`: the first where there are nodes enough for it, else the second.

    strict_placement: fail rather than fall back where `operator_first` needs more nodes.

    transport: channels by shm on one node and by tcp between nodes (`auto`), or all by one kind.
    Off Linux there is no shm, and `auto` takes ipc.

    encryption: encrypt tcp channels and authenticate both ends, with keys made for the job. Costs 1
    to 2 ns of CPU per byte at each end. False: whoever reaches a port can read and write records.

    channel_window_bytes: most bytes in flight on a channel; fewer where its task is slow: what that
    works off in 250 ms. Bounds the memory of the receiver, and latency. A ring in shared memory is
    rounded up to a power of two, and smaller where a task has many channels.

    send_buffer_bytes: most bytes that wait in a channel over a socket for credit before its sender
    is blocked.

    max_record_bytes: largest encoded record. A larger one fails the job.

    native: functions of records in Rust where their bytecode is understood (`auto`), everywhere or
    no job (`require`), nowhere (`off`), or in both ways to compare the results (`check`).

    marker_interval: every n-th record of a source carries a latency marker. Smaller: finer, a
    little slower.

    warmup_seconds: seconds after a task's first record that its throughput and latency leave out.

    start_timeout_seconds: longest that tasks may wait for a node that has room for them, when the
    job starts and after each failure. 0: they do not wait. For the runtime `ray` alone.

    connect_timeout_seconds: longest that starting the workers and connecting their channels may
    take.

    reconnect_timeout_seconds: longest that a tcp channel may be cut off; the job then fails with
    ChannelLost. Larger: a host that is gone for good is noticed later.

    port_range: TCP ports that tasks listen on, as in "20000-20999", for networks that let through
    named ports only. Two for each task of a node. None: any that is free.

    resources: what each task takes of its node, by the name of its operator, beside what the
    pipeline says, as in `{"*": {"operator_slot": 1}, "load": {"cpus": 4}}`; `*` stands for every
    operator. Only the runtime `ray` gives them out.

    progress: once a second: a line (`auto`: on a terminal; in a notebook, the cell shows the job),
    a JSON line, or nothing.

    metrics_port: port on which the driver answers scrapes of Prometheus, at /metrics; 0 takes any
    that is free, and says which. None: it listens on none. docs/reference/metrics.md has the
    metrics.

    metrics_host: address of that port. Other machines reach it with 0.0.0.0; there is no password.

    otlp_endpoint: where metrics go by OpenTelemetry, as in "http://collector:4318/v1/metrics"; of
    the extra `otlp`.

    ui_port: port of this machine on which the driver shows the job to a browser, as `oka run --ui`
    and docs/reference/ui.md have it; 0 takes any that is free. The link, with its token, is on
    stderr.

    checkpoints: where checkpoints go, a folder or "s3://bucket/prefix". None: none are taken, and
    the job fails with the first worker.

    checkpoint_interval_seconds: seconds from one checkpoint to the next. Smaller: less is done
    again after a failure, and output becomes final sooner; each writes what has changed.

    checkpoint_timeout_seconds: longest that the last checkpoint may take once all tasks have worked
    off their records, and that a job waits for its storage before it begins again; it then fails
    with what is in its way. A running job goes on without.

    resume: what of `checkpoints` to go on from: "latest", which is the beginning where there is
    none, the number of an epoch, or the name of a savepoint. None: there must not be any.

    restarts: failures that a job with checkpoints goes on after, from the last one; counted anew
    with each that is stored. Not those of an S3 that does not answer.

    drop_state: identities of operators whose state in `resume` may be dropped.

    history: where the file is that tells what the job did (`oka jobs`): among those of the user
    (`auto`), in a folder, in a file that ends in `.oka`, or nowhere (`off`). At most 2 MB; a folder
    keeps the last 50.

    ray_address: cluster to connect to: `host:port`, `ray://host:port`, `auto`, or `local` for a new
    one here. None: the connected one, that of RAY_ADDRESS, the last that `ray start` has started on
    this machine, or a new local. For the runtime `ray` alone.

    >>> JobConfig(parallelism=2).batch_size
    1000
    >>> JobConfig(parallelism=0)
    Traceback (most recent call last):
        ...
    engine.errors.ConfigError: parallelism is 0, expected an integer of at least 1
    """

    name: str = "job"
    runtime: Runtime = "local"
    parallelism: int = 1
    batch_size: int = 1000
    linger_ms: float = 0.0
    placement: Strategy = "auto"
    strict_placement: bool = False
    transport: Transport = "auto"
    encryption: bool = True
    channel_window_bytes: int = 1024 * 1024
    send_buffer_bytes: int = 128 * 1024
    max_record_bytes: int = 256 * 1024 * 1024
    native: Native = "auto"
    marker_interval: int = 100
    warmup_seconds: float = 0.0
    start_timeout_seconds: float = 300.0
    connect_timeout_seconds: float = 60.0
    reconnect_timeout_seconds: float = 10.0
    port_range: str | None = None
    resources: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
    progress: Progress = "auto"
    history: str = "auto"
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    otlp_endpoint: str | None = None
    ui_port: int | None = None
    ray_address: str | None = None
    checkpoints: str | None = None
    checkpoint_interval_seconds: float = 10.0
    checkpoint_timeout_seconds: float = 300.0
    resume: str | None = None
    restarts: int = 10
    drop_state: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field, choices in _CHOICES.items():
            _expect(
                field,
                getattr(self, field),
                f"one of {', '.join(choices)}",
                lambda v, c=choices: v in c,
            )
        for field, (types, expectation, check) in _LIMITS.items():
            value = getattr(self, field)
            typed = isinstance(value, types) and not isinstance(value, bool)
            _expect(field, value, expectation, lambda v, t=typed, c=check: t and c(v))
        for field in _SWITCHES:
            value = getattr(self, field)
            _expect(field, value, "True or False", lambda v: isinstance(v, bool))
        _expect("port_range", self.port_range, _PORT_RANGE, lambda _: self.ports != range(0))
        _expect("resources", self.resources, _RESOURCES, _are_resources)
        for needed in self.resources.values():
            try:
                check_names(needed)
            except ValueError as error:
                raise ConfigError(f"resources has {error}") from None
        _expect(
            "name",
            self.name,
            "a string that is not empty",
            _is_text,
        )
        _expect("history", self.history, _HISTORY, _is_text)
        _expect("metrics_port", self.metrics_port, _PORT, _is_port_or_none)
        _expect("ui_port", self.ui_port, _PORT, _is_port_or_none)
        _expect("metrics_host", self.metrics_host, "an address such as '0.0.0.0'", _is_text)
        _expect("otlp_endpoint", self.otlp_endpoint, _OTLP, _is_url_or_none)
        _expect("ray_address", self.ray_address, _ADDRESS, lambda v: v is None or _is_text(v))
        _expect("checkpoints", self.checkpoints, _CHECKPOINTS, lambda v: v is None or _is_text(v))
        _expect("resume", self.resume, _RESUME, lambda v: v is None or _is_text(v))
        _expect("drop_state", self.drop_state, _DROP_STATE, _are_texts)
        if self.resume is not None and self.checkpoints is None:
            raise ConfigError(
                f"resume is {self.resume!r} and checkpoints is None, expected the folder to resume "
                "from",
                "add --checkpoints FOLDER (checkpoints='folder')",
            )
        if self.ui_port is not None and self.history == "off":
            raise ConfigError(
                f"ui_port is {self.ui_port} and history is 'off', expected a history: it is what "
                "the page shows",
                "leave out --history off (history='off')",
            )
        if self.ray_address is not None and self.runtime != "ray":
            raise ConfigError(
                f"ray_address is {self.ray_address!r} and runtime is {self.runtime!r}, "
                "expected 'ray'",
                "add --runtime ray (runtime='ray'), or leave the address out (ray_address=None)",
            )

    @property
    def is_private(self) -> bool:
        """Whether only the tasks of the job can send records to its tasks."""
        return self.encryption or self.transport in ("shm", "ipc")

    @cached_property
    def ports(self) -> range | None:
        """The ports that `port_range` says in text; None where any will do."""
        if self.port_range is None:
            return None
        text = self.port_range if isinstance(self.port_range, str) else ""
        ends = re.fullmatch(r"(\d{1,5})-(\d{1,5})", text)
        first, last = map(int, ends.groups()) if ends else (0, 0)
        return range(first, last + 1) if 1024 <= first <= last <= 65535 else range(0)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> JobConfig:
        """The config with these settings; raises ConfigError for a name that does not exist."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in settings:
            if name not in known:
                raise ConfigError(
                    f"unknown setting {name!r}",
                    f"{did_you_mean(name, known)}the settings are {', '.join(known)}",
                )
        return cls(**settings)

    @classmethod
    def read(cls, path: str | Path, **overrides: Any) -> JobConfig:
        """The config in a TOML or YAML file, told apart by suffix; `overrides` win."""
        return cls.of({**read_file(path), **overrides})


def read_file(path: str | Path) -> dict[str, Any]:
    """The settings in a TOML or YAML file, as they are written; raises ConfigError."""
    import yaml  # not above, as tomllib: it is a tenth of what a worker imports

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    path = Path(path)
    readers = {".toml": tomllib.loads, ".yaml": yaml.safe_load, ".yml": yaml.safe_load}
    if path.suffix not in readers:
        raise ConfigError(f"config file {path} ends in {path.suffix!r}, expected .toml or .yaml")
    try:
        settings = readers[path.suffix](path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"config file {path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"config file {path} is not valid: {error}") from error
    if not isinstance(settings, dict):
        raise ConfigError(f"config file {path} holds no table of settings")
    return settings


def _expect(field: str, value: object, expectation: str, check: Any) -> None:
    if not check(value):
        raise ConfigError(f"{field} is {value!r}, expected {expectation}")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_port_or_none(value: object) -> bool:
    return value is None or (type(value) is int and 0 <= value <= 65535)


def _is_url_or_none(value: object) -> bool:
    # Without a password: settings are written into results.
    url = r"https?://[^/@\s]+(/\S*)?"
    return value is None or (isinstance(value, str) and re.fullmatch(url, value) is not None)


def _are_texts(value: object) -> bool:
    return isinstance(value, tuple | list) and all(map(_is_text, value))


def _are_resources(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(operator, str)
        and isinstance(needed, Mapping)
        and all(
            isinstance(name, str)
            and isinstance(amount, int | float)
            and not isinstance(amount, bool)
            and amount >= 0
            for name, amount in needed.items()
        )
        for operator, needed in value.items()
    )


_PORT_RANGE = 'None or two ports from 1024 to 65535, the lower one first, as in "20000-20999"'
_PORT = "None or a port from 0 to 65535, where 0 is any that is free"
_OTLP = "None or a URL without a password, such as 'http://collector:4318/v1/metrics'"
_ADDRESS = "None or an address such as '10.0.0.1:6379'"
_HISTORY = "'auto', 'off', a folder or a file that ends in .oka"
_CHECKPOINTS = "None, a folder or 's3://bucket/prefix'"
_RESUME = "None, 'latest', the number of an epoch or the name of a savepoint"
_DROP_STATE = """names of operators in a list, as in '["totals"]'"""
_RESOURCES = "amounts of at least 0 by resource by operator, as in {'*': {'operator_slot': 1}}"
_CHOICES: dict[str, tuple[str, ...]] = {
    "runtime": get_args(Runtime),
    "placement": get_args(Strategy),
    "transport": get_args(Transport),
    "progress": get_args(Progress),
    "native": get_args(Native),
}
_SWITCHES = ("strict_placement", "encryption")
_AT_LEAST_ONE = (int, "an integer of at least 1", lambda value: value >= 1)
_NOT_NEGATIVE = ((int, float), "a number of at least 0", lambda value: value >= 0)
_POSITIVE = ((int, float), "a number above 0", lambda value: value > 0)
_LIMITS: dict[str, tuple[Any, str, Any]] = {
    "parallelism": _AT_LEAST_ONE,
    "batch_size": _AT_LEAST_ONE,
    "marker_interval": _AT_LEAST_ONE,
    "linger_ms": _NOT_NEGATIVE,
    "warmup_seconds": _NOT_NEGATIVE,
    "start_timeout_seconds": _NOT_NEGATIVE,
    "connect_timeout_seconds": _POSITIVE,
    "checkpoint_interval_seconds": _POSITIVE,
    "checkpoint_timeout_seconds": _POSITIVE,
    "restarts": (int, "an integer of at least 0", lambda value: value >= 0),
    "reconnect_timeout_seconds": _POSITIVE,
    "channel_window_bytes": (int, "an integer of at least 65536", lambda value: value >= 65536),
    "send_buffer_bytes": (int, "an integer of at least 65536", lambda value: value >= 65536),
    "max_record_bytes": (int, "an integer of at least 65536", lambda value: value >= 65536),
}
