"""Help texts: lists of commands that say whole sentences."""

from __future__ import annotations

import inspect
import re

import click


class Group(click.Group):
    """A group that lists its commands with their whole first sentences, in several lines."""

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


def first_sentence(text: str) -> str:
    """The text up to where a full stop ends a sentence, or a paragraph ends, on one line."""
    paragraph = inspect.cleandoc(text).partition("\n\n")[0]
    return " ".join(re.split(r"(?<=\.)\s", paragraph, maxsplit=1)[0].split())
