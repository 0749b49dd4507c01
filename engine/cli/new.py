"""`oka new`: a project with a pipeline, its test and its settings, which runs at once."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

import click

from engine.errors import ConfigError
from engine.installation.shadows import is_taken


@click.command("new")
@click.argument("folder", type=click.Path(path_type=Path))
def command(folder: Path) -> None:
    """Make FOLDER with a pipeline that runs at once: its test, settings, and notes for agents.

    The last part of FOLDER is the name of the pipeline's module.
    """
    folder = folder.absolute()
    name = folder.name
    if not name.isidentifier() or is_taken(name):
        raise ConfigError(
            f"{name!r} is no name of a module, or one that programs need, expected one of letters, "
            "digits and _",
            "such as my_pipeline",
        )
    if folder.exists() or folder.is_symlink():
        raise ConfigError(f"{folder} is there already, expected a new folder", "choose another")
    try:
        _write(folder, name)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be made: {error.strerror}") from error
    shown = os.path.relpath(folder)
    click.echo(f"{shown} has a pipeline, its test and its settings. Go on with:\n")
    click.echo(f"  cd {shown}\n  oka run {name}.py --config oka.toml --ui\n  pytest")


def _write(folder: Path, name: str) -> None:
    """Write all files, or none."""
    package = importlib.util.find_spec(_STARTER)
    assert package is not None
    assert package.origin is not None
    starter = Path(package.origin).parent
    begun = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    try:
        for source, target in _FILES.items():
            text = (starter / source).read_text(encoding="utf-8")
            for before, after in ((_MODULE, name), ("starter", name)):
                text = text.replace(before, after)
            (begun / target.format(name)).write_text(text, encoding="utf-8")
        begun.chmod(0o777 & ~_umask())
        begun.rename(folder)
    except BaseException:
        shutil.rmtree(begun, ignore_errors=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


_STARTER = "oka.starter"
_MODULE = f"{_STARTER}.pipeline"
_FILES = {
    "pipeline.py": "{}.py",
    "test_pipeline.py": "test_{}.py",
    "oka.toml": "oka.toml",
    "AGENTS.md": "AGENTS.md",
}
"""Files of the starter, and their names in a project."""
