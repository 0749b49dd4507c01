"""Versions that must be the same: Ray's in the image, in the cluster, and where Oka was tested."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Any

from k8s.check.finding import Finding
from k8s.manifests import FOLDER, clusters, pods


def ray_versions(documents: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """`rayVersion` is the pinned Ray's, and the tag of every image says the same."""
    pinned = pinned_ray()
    expected = {str(cluster.spec.get("rayVersion")) for cluster in clusters(documents)}
    for cluster in clusters(documents):
        version = cluster.spec.get("rayVersion")
        if version != pinned:
            yield Finding(
                "ray-version",
                cluster.owner,
                f"rayVersion is {version!r}, expected {pinned}, which Oka was tested with",
            )
    for where, template in pods(documents):
        for container in template["spec"]["containers"]:
            image = container.get("image", "")
            found = re.search(r":[^/]*-ray(\d+\.\d+\.\d+)$", image.partition("@")[0])
            if found is None:
                yield Finding(
                    "ray-version",
                    where,
                    f"image is {image!r}, expected a tag that ends in -ray and Ray's version",
                )
            elif found.group(1) not in expected:
                yield Finding(
                    "ray-version",
                    where,
                    f"image {image!r} has Ray {found.group(1)}, expected {', '.join(expected)}",
                    "workers with another Ray than the head do not join",
                )


def pinned_ray() -> str:
    """Ray's version in constraints.txt, or, in an installed Oka, the one that is installed."""
    constraints = FOLDER.parent / "constraints.txt"
    if constraints.exists():
        found = re.search(r"^ray==(\S+)$", constraints.read_text(encoding="utf-8"), re.MULTILINE)
        assert found is not None
        return found.group(1)
    return metadata.version("ray")
