"""Options that several benchmarks have: lists of numbers, names and loads; length and repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from benchmarks.sweep import Settings
from benchmarks.systems import APIS
from engine.config import Transport

Command = TypeVar("Command", bound=Callable[..., Any])


class Numbers(click.ParamType[tuple[int, ...]]):
    """A list of whole numbers of at least 1, such as `1,10,100`."""

    name = "n,n,…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Parse the list."""
        try:
            numbers = tuple(int(number) for number in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of whole numbers such as 1,10,100", param, ctx)
        if min(numbers) < 1:
            self.fail(f"{min(numbers)} is below 1", param, ctx)
        return tuple(dict.fromkeys(numbers))


class Choices(click.ParamType[tuple[str, ...]]):
    """A list of names out of a few."""

    name = "name,…"

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Parse the list."""
        chosen = tuple(dict.fromkeys(str(value).split(",")))
        for name in chosen:
            if name not in self._names:
                self.fail(f"{name!r} is none of {', '.join(self._names)}", param, ctx)
        return chosen


class Loads(click.ParamType[tuple[str, ...]]):
    """`closed`, or shares of the closed throughput between 0 and 1, such as `closed,0.5`."""

    name = "load,…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Parse the list."""
        loads = tuple(dict.fromkeys(str(value).split(",")))
        for load in loads:
            try:
                fits = load == "closed" or 0 < float(load) < 1
            except ValueError:
                fits = False
            if not fits:
                self.fail(f"{load!r} is neither closed nor a share between 0 and 1", param, ctx)
        return loads


def names_option(
    flag: str, parameter: str, names: Iterable[str], about: str
) -> Callable[[Command], Command]:
    """A list of these names; all of them where it is not said."""
    known = tuple(dict.fromkeys(names))
    return click.option(flag, parameter, type=Choices(known), default=",".join(known), help=about)


def words_options(payload: str, batch: str) -> Callable[[Command], Command]:
    """`--payload` and `--batch`, lists with these defaults."""
    return _all(
        click.option("--payload", type=Numbers(), default=payload, help="Bytes in a word."),
        click.option("--batch", type=Numbers(), default=batch, help="Most words in a batch."),
    )


def parallelism_option(default: str) -> Callable[[Command], Command]:
    """`--parallelism`, a list with this default."""
    return click.option(
        "--parallelism",
        type=Numbers(),
        default=default,
        help="Source tasks, and as many sink tasks.",
    )


repeats_option = click.option(
    "--repeats",
    default=5,
    type=click.IntRange(1),
    help="Runs of each case, alternating between the systems.",
)


def api_option(default: str = ",".join(APIS)) -> Callable[[Command], Command]:
    """`--api`, a list with this default: all of them."""
    return click.option(
        "--api", type=Choices(APIS), default=default, help="How the count is written."
    )


def runtime_option(command: Command) -> Command:
    """`--runtime`, as `runtime_name`."""
    return click.option(
        "--runtime",
        "runtime_name",
        type=click.Choice(["local", "ray"]),
        default="local",
        help="ray: the cluster of RAY_ADDRESS, or one on this machine.",
    )(command)


def transport_option(command: Command) -> Command:
    """`--transport`; None is the default of the runtime."""
    return click.option(
        "--transport",
        type=click.Choice(get_args(Transport)),
        help="[shm; auto with --runtime ray: tcp between nodes]",
    )(command)


def sweep_options(seconds: float = 1.5, warmup: float = 0.5) -> Callable[[Command], Command]:
    """Options of every benchmark that runs cases in turn, with these defaults; see `settings`."""
    return _all(
        click.option(
            "--load",
            type=Loads(),
            default="closed",
            help="closed: as fast as possible; 0.5: words offered at half of the closed "
            "throughput, which is measured, too.",
        ),
        click.option("--seconds", default=seconds, help="Length of a run, without its warm-up."),
        click.option("--warmup", default=warmup, help="Seconds left out at the start of a run."),
        repeats_option,
        result_options,
    )


def result_options(command: Command) -> Command:
    """`--seed`, and where the rows go."""
    seed = click.option("--seed", default=0, help="Of the random words.")
    return _all(seed, file_options)(command)


def file_options(command: Command) -> Command:
    """Where the rows go: `--json`, as `json_file`, and `--fresh`."""
    return _all(
        click.option(
            "--json",
            "json_file",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Write rows in the schema oka.bench/1 here, as each is finished. Where the file "
            "is there already, its finished rows are kept and the others measured.",
        ),
        click.option("--fresh", is_flag=True, help="Begin anew where the --json file is there."),
    )(command)


def settings(seconds: float, warmup: float, repeats: int, seed: int) -> Settings:
    """The settings of the options. Raises click.UsageError."""
    for option, value, least in (
        ("--seconds", seconds, 0.1),
        ("--warmup", warmup, 0),
        ("--repeats", repeats, 1),
        ("--seed", seed, 0),
    ):
        if not least <= value < float("inf"):
            raise click.UsageError(f"{option} is {value}, expected at least {least}")
    return Settings(seconds, warmup, repeats, seed)


def _all(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """All of these, shown in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate
