"""Schemas of Kubernetes, KubeRay, the Prometheus operator and eksctl, by kubeconform."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.errors import ConfigError
from k8s.check.finding import Finding
from k8s.check.tools import tool
from k8s.manifests import FOLDER

_SCHEMAS = f"{FOLDER}/schemas/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"


def schemas(documents: Sequence[dict[str, Any]]) -> list[Finding]:
    """Fields that do not exist, are missing, or have the wrong type; kinds without a schema."""
    result = subprocess.run(
        [tool("kubeconform"), "-strict", "-output", "json", "-schema-location", _SCHEMAS, "-"],
        input="\n---\n".join(map(json.dumps, documents)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return _findings(result)


def schema_of_file(path: Path) -> list[Finding]:
    """The same of a file as it is written, where a key that occurs twice is a mistake, too."""
    command = [tool("kubeconform"), "-strict", "-output", "json", "-schema-location", _SCHEMAS]
    return _findings(
        subprocess.run(
            [*command, str(path)], capture_output=True, text=True, check=False, timeout=60
        )
    )


def _findings(result: subprocess.CompletedProcess[str]) -> list[Finding]:
    try:
        resources = json.loads(result.stdout).get("resources") or []
    except json.JSONDecodeError:
        raise ConfigError(f"kubeconform failed: {result.stderr.strip()}") from None
    findings = []
    for resource in resources:
        where = f"{resource.get('kind') or '?'}/{resource.get('name') or '?'}"
        # "… validation failed with '…' - at '/spec/x': got string, want integer - at …"
        details = re.split(r"\s+- at (?!'': validation failed)", resource["msg"])[1:]
        findings += [Finding("schema", where, detail) for detail in details or [resource["msg"]]]
    return findings
