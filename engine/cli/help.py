"""Groups of commands: listed with whole sentences, and loaded when they are named."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Mapping
from typing import Any

import click

from engine.errors import ConfigError
from engine.installation.distribution import DISTRIBUTION


class Group(click.Group):
    """A group that lists its commands with their whole first sentences, in several lines.

    `modules` has further commands: a name, and the module in which `command` or what stands behind
    a colon is the command. It is loaded when it is named. Modules of packages that are in a clone
    of the repository only may be missing; the command then says where it is.
    """

    def __init__(
        self, *arguments: Any, modules: Mapping[str, str] | None = None, **settings: Any
    ) -> None:
        super().__init__(*arguments, **settings)
        self._modules = modules or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands."""
        return sorted({*super().list_commands(ctx), *self._modules})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command; loads the module that has it."""
        if cmd_name not in self._modules:
            return super().get_command(ctx, cmd_name)
        module, _, name = self._modules[cmd_name].partition(":")
        try:
            loaded = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module.partition(".")[0]:
                raise
            return _missing(cmd_name)
        command: click.Command = getattr(loaded, name or "command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, first_sentence(command.short_help or command.help or ""))
            for name, command in found
            if command is not None and not command.hidden
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


def _missing(name: str) -> click.Command:
    """The command of a package that is not installed: it only says so."""

    def refuse(**_: Any) -> None:
        raise ConfigError(
            f"oka {name} is not installed: the distribution {DISTRIBUTION} has what jobs need",
            "clone Oka's repository and run `make build` in it: its .venv/bin/oka has all commands",
        )

    rest = click.Argument(["rest"], nargs=-1, type=click.UNPROCESSED)
    settings = {"ignore_unknown_options": True, "help_option_names": []}
    return click.Command(
        name, settings, refuse, [rest], short_help="Not installed: it is in Oka's repository."
    )


def first_sentence(text: str) -> str:
    """The text up to where a full stop ends a sentence, or a paragraph ends, on one line."""
    paragraph = inspect.cleandoc(text).partition("\n\n")[0]
    return " ".join(re.split(r"(?<=\.)\s", paragraph, maxsplit=1)[0].split())
