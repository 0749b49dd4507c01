"""Maintained tools, for rules of any manifest: kubectl-validate and hadolint.

Rules about pods are ours, in the files beside, as kube-score 1.20 sees no pods in a RayCluster or
RayJob: of `k8s/base` it says only that three network policies select none, which is wrong, and
nothing of containers (tried 2026-11-26).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

import yaml

from engine.errors import ConfigError
from k8s.check.finding import Finding
from k8s.manifests import FOLDER, name
from k8s.tools import tool

_SCHEMAS = FOLDER / "schemas"


def schemas(texts: Sequence[str]) -> list[list[Finding]]:
    """The findings of the API server's own validation for each YAML text.

    A document that several texts have is checked once.
    """
    parts = [re.split(r"^---(?!\S)", text, flags=re.MULTILINE) for text in texts]
    documents = {part for each in parts for part in each if part.strip()}
    refused = _refused(sorted(documents)) if documents else {}
    return [[found for part in each for found in refused.get(part, ())] for each in parts]


def eksctl_text(text: str) -> str:
    """A ClusterConfig as a custom resource: its metadata are not Kubernetes' own."""
    head = "apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata: {name: eksctl}\nspec:\n"
    return head + indent(re.sub(r"\A((?:#.*)?\n)*---\n", "", text), "  ")


def dockerfile(path: Path) -> list[Finding]:
    """The findings of hadolint, such as an image without a version or the user root."""
    found = _json("hadolint", "--format=json", "--failure-threshold=none", str(path))
    told = [(f"{path.name}:{each['line']}", f"{each['code']} {each['message']}") for each in found]
    return [Finding(where, problem, "", "hadolint", "note") for where, problem in told]


def _json(program: str, *arguments: str) -> Any:
    # Without a KUBECONFIG kubectl-validate contacts no cluster.
    result = subprocess.run(
        [tool(program), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False, timeout=600, env={**os.environ, "KUBECONFIG": os.devnull, "GOGC": "400"},
    )  # fmt: skip
    try:
        return json.loads(result.stdout)
    except json.JSONDecodeError:
        raise ConfigError(f"{program} failed: {result.stderr.strip()}") from None


def _refused(documents: Sequence[str]) -> dict[str, list[Finding]]:
    """The findings of kubectl-validate, by text, for texts with findings."""
    with tempfile.TemporaryDirectory(prefix="oka-k8s-") as folder:
        paths = {f"{folder}/{n}.yaml": document for n, document in enumerate(documents)}
        for path, document in paths.items():
            Path(path).write_text(document, encoding="utf-8")
        rules = yaml.load((_SCHEMAS / "rules.yaml").read_text("utf-8"), yaml.CSafeLoader)
        for version, patches in rules.items():
            file = Path(folder, "rules", f"{version}.json")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps({"components": {"schemas": patches}}), encoding="utf-8")
        answer = _json(
            "kubectl-validate", f"--local-crds={_SCHEMAS / 'crds'}",
            f"--local-schemas={_SCHEMAS / 'openapi'}", f"--schema-patches={folder}/rules",
            "--output=json", *paths,
        )  # fmt: skip
    return {
        paths[path]: [each for status in statuses for each in _findings(_name(paths[path]), status)]
        for path, statuses in answer.items()
        if any(each["status"] != "Success" for each in statuses)
    }


def _findings(where: str, status: Mapping[str, Any]) -> Iterator[Finding]:
    """The messages of the API server."""
    causes = (status.get("details") or {}).get("causes") or [{"message": status.get("message", "")}]
    for cause in causes if status["status"] != "Success" else ():
        said = re.sub(r" in body |, regex used for validation is .*", " ", cause["message"])
        if "rules were not checked because" in said:
            continue
        rule = _RULE.search(said)
        level, check, text = rule.groups() if rule else ("", "schema", "")
        unknown = re.search(r"OpenAPI spec for GV: (\S+)|kind \S+ not found in (\S+)", said)
        version = next(filter(None, unknown.groups())) if unknown else ""
        if version and not _OF_KUBERNETES.match(f"{version} {where}"):
            text = f"is of a kind that is not known here ({version}), and not looked at"
            level = "note"
        problem = text or f"{cause.get('field', '')}: {said}".strip(": ")
        yield Finding(where, problem, "", check, level)


def _name(text: str) -> str:
    try:
        return name(yaml.load(text, yaml.CSafeLoader))
    except (yaml.YAMLError, AttributeError):  # no YAML, or no mapping
        return "a document"


_RULE = re.compile(r"(note|baseline|restricted) ([-a-z]+): (.*)")
_OF_KUBERNETES = re.compile(
    r"(v1 |(apps|batch|policy|autoscaling|extensions|ray\.io)/(?!.* Ray(Service|CronJob)/)|"
    r"(networking|rbac\.authorization|storage|scheduling|apiextensions|coordination|discovery|events"
    r"|admissionregistration|certificates|node)\.k8s\.io/)"
)
"""Groups whose kinds are all known here: any other kind is a mistake."""
