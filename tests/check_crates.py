"""Holds the direction of the crates, and that rust/checked.toml knows all of them.

native -> codec, expression, formats, blob, http, s3, join, transport, columnar -> compute ->
protocol, window, ring -> ipc.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ALLOWED = {
    "oka-protocol": set(),
    "oka-window": set(),
    "oka-join": {"oka-window"},
    "oka-compute": {"oka-protocol", "oka-window"},
    "oka-ipc": set(),
    "oka-ring": {"oka-ipc"},
    "oka-ring-loom": set(),
    "oka-transport": {"oka-ipc", "oka-protocol", "oka-ring"},
    "oka-blob": {"oka-ipc"},
    "oka-fuzz": {
        "oka-protocol",
        "oka-columnar",
        "oka-compute",
        "oka-blob",
        "oka-formats",
        "oka-http",
    },
    "oka-instructions": {
        "oka-protocol",
        "oka-ring",
        "oka-columnar",
        "oka-compute",
        "oka-window",
    },
    "oka-columnar": {"oka-protocol", "oka-compute", "oka-window"},
    "oka-codec": {"oka-compute", "oka-protocol"},
    "oka-expression": {"oka-compute"},
    "oka-formats": set(),
    "oka-http": {"oka-ipc"},
    "oka-s3": set(),
    "oka-nexmark": set(),
    "oka-load": set(),
    "oka-s3-server": set(),
    "oka-native": {
        "oka-protocol",
        "oka-codec",
        "oka-columnar",
        "oka-compute",
        "oka-expression",
        "oka-formats",
        "oka-transport",
        "oka-blob",
        "oka-http",
        "oka-ipc",
        "oka-join",
        "oka-s3",
        "oka-window",
    },
}

CHECKED = Path(__file__).parents[1] / "rust" / "checked.toml"


def main() -> int:
    metadata = json.loads(
        subprocess.run(
            ["cargo", "metadata", "--locked", "--no-deps", "--format-version=1"],
            check=True,
            capture_output=True,
        ).stdout
    )
    wrong = [
        f"{package['name']} depends on {dependency['name']}"
        for package in metadata["packages"]
        for dependency in package["dependencies"]
        if dependency["name"] in ALLOWED
        and dependency["name"] not in ALLOWED.get(package["name"], set())
    ]
    unknown = [p["name"] for p in metadata["packages"] if p["name"] not in ALLOWED]
    checked = re.findall(r"^(oka-[\w-]+) =", CHECKED.read_text(encoding="utf-8"), re.MULTILINE)
    unchecked = ALLOWED.keys() - set(checked) - {"oka-fuzz"}  # fuzz has a profile of its own
    wrong += [f"{name} is not in ALLOWED" for name in unknown]
    wrong += [f"{name} is not in {CHECKED.name}" for name in sorted(unchecked)]
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
