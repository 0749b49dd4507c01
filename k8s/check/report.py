"""All checks, and what they say."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from k8s.check.dockerfile import dockerfile
from k8s.check.finding import Finding
from k8s.check.lints import lint
from k8s.check.schemas import schema_of_file, schemas
from k8s.manifests import FOLDER


def check(documents: Sequence[dict[str, Any]]) -> list[Finding]:
    """What schemas and lints find in the documents of one overlay.

    Lints rely on the fields that schemas guarantee, so they look only at what those let through.
    """
    return schemas(documents) or lint(documents)


def check_repository() -> list[Finding]:
    """What is wrong with the Dockerfile and with EKS's cluster, which belong to no overlay."""
    root = FOLDER.parent / "Dockerfile"
    findings = dockerfile(root) if root.exists() else []
    return [*findings, *schema_of_file(FOLDER / "eks" / "cluster.yaml")]


def tell(findings: Sequence[Finding], checked: Sequence[str]) -> None:
    """Print the findings and exit with 1, or say that there are none."""
    for finding in findings:
        click.echo(str(finding), err=True)
    if findings:
        mistakes = "1 mistake" if len(findings) == 1 else f"{len(findings)} mistakes"
        click.echo(f"{mistakes} in {', '.join(checked)}", err=True)
        sys.exit(1)
    click.echo(f"no mistakes in {', '.join(checked)}")
