"""The Dockerfile, by hadolint."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from engine.errors import ConfigError
from k8s.check.finding import Finding
from k8s.check.tools import tool


def dockerfile(path: Path) -> list[Finding]:
    """What hadolint finds, such as an image without a version or a user that is root."""
    result = subprocess.run(
        [tool("hadolint"), "--format", "json", "--failure-threshold", "none", str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    try:
        found = json.loads(result.stdout)
    except json.JSONDecodeError:
        raise ConfigError(f"hadolint failed: {result.stderr.strip()}") from None
    return [
        Finding("hadolint", f"{path.name}:{each['line']}", f"{each['code']} {each['message']}")
        for each in found
    ]
