"""Commands with a pipeline as argument: `--help` after FILE lists the pipeline's arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import click

from engine.arguments import parameters_of, type_name
from engine.cli.program import find_pipeline


class PipelineCommand(click.Command):
    """A command with a parameter `target`, FILE[:FUNCTION]; its `--help` describes that target."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        # Said here, too, since click keeps the option that it made for the first context.
        settings.setdefault("context_settings", {"help_option_names": ["-h", "--help"]})
        super().__init__(*arguments, **settings)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and keep them for `--help`, which is handled first."""
        ctx.meta[_GIVEN] = list(args)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help on the pipeline, or the usual one."""
        given, _, _ = self.make_parser(ctx).parse_args(list(ctx.meta.get(_GIVEN, ())))
        target = given.get("target")
        if not isinstance(target, str):
            super().format_help(ctx, formatter)
            return
        found = self.find(target)
        formatter.write_usage(ctx.command_path, f"{target} [NAME=VALUE]... [OPTIONS]")
        if about := inspect.getdoc(found) if callable(found) else None:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(about)
        with formatter.section("Arguments"):
            if rows := arguments(found) if callable(found) else []:
                formatter.write_dl(rows)
                formatter.write_paragraph()
                formatter.write_text("Several values stand between commas: NAME=a,b.")
            else:
                formatter.write_text("It takes none.")
        self.format_options(ctx, formatter)

    def find(self, target: str) -> Any:
        """The object that the target names."""
        return find_pipeline(target)[0]


def arguments(function: Callable[..., Any]) -> list[tuple[str, str]]:
    """The arguments that can be given by name: `NAME=`, and its type and default."""
    try:
        parameters = parameters_of(function)
    except (TypeError, ValueError):  # some built-in functions do not tell
        return []
    return [
        (f"{each.name}=", _described(each))
        for each in parameters
        if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    ]


def _described(parameter: inspect.Parameter) -> str:
    default, annotation = parameter.default, parameter.annotation
    if default is parameter.empty:
        told = "[required]"
    else:
        told = f"[default: {default if isinstance(default, str) and default else repr(default)}]"
    return told if annotation is parameter.empty else f"{type_name(annotation)}  {told}"


_GIVEN = "engine.cli.pipeline.given"
