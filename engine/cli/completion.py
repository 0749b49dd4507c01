"""`oka completion`: what a shell runs to complete commands, options and files."""

from __future__ import annotations

import os
import sys

import click
from click.shell_completion import CompletionItem, get_completion_class, shell_complete


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print what SHELL runs to complete the words of oka commands.

    eval "$(oka completion bash)"       # in ~/.bashrc, or with zsh in ~/.zshrc

    oka completion fish | source        # in ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(click.Group("oka"), {}, "oka", _VARIABLE).source())


def answer(commands: click.Command) -> None:
    """If a shell asks what may come next, tell it and exit."""
    if asked := os.environ.get(_VARIABLE):
        sys.exit(shell_complete(commands, {}, "oka", _VARIABLE, asked))


def files(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """For an argument that may be a file: the shell lists those that begin so."""
    return [CompletionItem(begun, type="file")]


_VARIABLE = "_OKA_COMPLETE"
