"""The report: `oka report results/*.json`. Figures and one HTML file that needs no other."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks.report.drawable import check_drawable
from benchmarks.schema import results_file
from engine.errors import ConfigError
from engine.report.progress import telling
from engine.units import counted


class Formats(click.ParamType[tuple[str, ...]]):
    """A list of image formats out of png and svg."""

    name = "format,…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Parse the list."""
        formats = tuple(dict.fromkeys(str(value).split(",")))
        for each in formats:
            if each not in _FORMATS:
                self.fail(f"{each!r} is none of {', '.join(_FORMATS)}", param, ctx)
        return formats


@click.command("report")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("results/report"),
    help="Folder of the report; it is made if it does not exist.",
)
@click.option(
    "--format",
    "formats",
    type=Formats(),
    default="png,svg",
    help="Formats of the figure files; in the page figures are svg.",
)
def command(files: tuple[Path, ...], output: Path, formats: tuple[str, ...]) -> None:
    """Draw the figures of result files (`oka.bench/1`), and write them and a page of all.

    The page is OUTPUT/index.html; it contains its figures and may be moved alone.
    """
    results = dict(zip(_names(files), map(results_file.read, files), strict=True))
    page = output / "index.html"
    results_file.check_writable(page)
    written = write(results, output, formats)
    click.echo(f"{page} and {counted(len(written) - 1, 'figure')} beside it")


def write(
    results: Mapping[str, Mapping[str, Any]], output: Path, formats: Sequence[str]
) -> list[Path]:
    """Write the report of results, by name, and return its files; all of them or none.

    Raises ConfigError if the packages that draw are missing, or the folder cannot be written.
    """
    check_drawable()
    from benchmarks import plots
    from benchmarks.report import page

    content: dict[str, bytes] = {}
    sections = []
    with telling("drawing") as tell:
        for name, result in results.items():
            tell(f"drawing {name}")
            pictures = []
            drawings = plots.draw(result)
            for number, drawing in enumerate(drawings, 1):
                tell(f"drawing {name}: {number} of {counted(len(drawings), 'figure')}")
                svg = plots.render(drawing, "svg")
                pictures.append(page.Picture(drawing.title, drawing.alt, drawing.note, svg))
                for each in formats:
                    data = svg if each == "svg" else plots.render(drawing, each)
                    content[f"{name}_{drawing.name}.{each}"] = data
            sections.append(page.Section.of(name, result, pictures))
    content["index.html"] = page.render(sections).encode()
    _write_all(output, content)
    return [output / name for name in content]


def _write_all(output: Path, content: Mapping[str, bytes]) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
        # In the folder itself, so that moving a file is one step.
        with tempfile.TemporaryDirectory(dir=output, prefix=".report-") as partial:
            for name, data in content.items():
                (Path(partial) / name).write_bytes(data)
            for name in content:
                (Path(partial) / name).replace(output / name)
    except OSError as error:
        raise ConfigError(
            f"the report cannot be written to {output}: {error.strerror}",
            "name another folder: --output FOLDER",
        ) from error


def _names(files: Sequence[Path]) -> list[str]:
    """A name for each file: its stem, with a number if another file has the same."""
    names: list[str] = []
    for file in files:
        name, number = file.stem, 1
        while name in names:
            number += 1
            name = f"{file.stem}_{number}"
        names.append(name)
    return names


_FORMATS = ("png", "svg")
