"""All checks, and what they say."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from k8s.check.dockerfile import dockerfile
from k8s.check.finding import Finding
from k8s.check.lints import lint
from k8s.check.nodes import nodes_hold_pods
from k8s.check.schemas import schema_of_file, schemas
from k8s.manifests import FOLDER, build, load


def check(documents: Sequence[dict[str, Any]]) -> list[Finding]:
    """What schemas and lints find in the documents of one overlay.

    Lints rely on the fields that schemas guarantee, so they look only at what those let through.
    """
    return schemas(documents) or lint(documents)


def check_repository() -> list[Finding]:
    """What is wrong with the Dockerfile and with EKS's cluster, which belong to no overlay."""
    root = FOLDER.parent / "Dockerfile"
    findings = dockerfile(root) if root.exists() else []
    return [*findings, *check_eks(FOLDER)]


def check_eks(folder: Path) -> list[Finding]:
    """What is wrong with EKS's cluster in a folder like `k8s`, beside its overlay."""
    path = folder / "eks" / "cluster.yaml"
    (eks,) = load(path.read_text(encoding="utf-8"))
    return schema_of_file(path) or [*nodes_hold_pods(build(folder / "overlays" / "eks"), eks)]


def tell(findings: Sequence[Finding], checked: Sequence[str]) -> None:
    """Print the findings and exit with 1, or say that there are none."""
    for finding in findings:
        click.echo(str(finding), err=True)
    if findings:
        mistakes = "1 mistake" if len(findings) == 1 else f"{len(findings)} mistakes"
        click.echo(f"{mistakes} in {', '.join(checked)}", err=True)
        sys.exit(1)
    click.echo(f"no mistakes in {', '.join(checked)}")
