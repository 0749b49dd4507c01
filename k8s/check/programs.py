"""Kept tools, for what is true of any manifest: kubectl-validate, kube-score and hadolint."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

import yaml

from engine.errors import ConfigError
from k8s.check.finding import Finding
from k8s.check.subject import Subject
from k8s.manifests import FOLDER, dump, name
from k8s.tools import tool

_SCHEMAS = FOLDER / "schemas"


def schemas(texts: Sequence[str]) -> list[list[Finding]]:
    """What the API server's own validation says of each YAML text.

    A document that several texts have is looked at once.
    """
    parts = [re.split(r"^---(?!\S)", text, flags=re.MULTILINE) for text in texts]
    documents = {part for each in parts for part in each if part.strip()}
    refused = _refused(sorted(documents)) if documents else {}
    return [[found for part in each for found in refused.get(part, ())] for each in parts]


def eksctl_text(text: str) -> str:
    """A ClusterConfig as a custom resource: its own metadata are not those of Kubernetes."""
    head = "apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata: {name: eksctl}\nspec:\n"
    return head + indent(re.sub(r"\A((?:#.*)?\n)*---\n", "", text), "  ")


def score(subject: Subject) -> Iterator[Finding]:
    """What kube-score finds in the documents and in the pods that KubeRay would make."""
    text = dump([*subject.documents, *(pod.document for pod in subject.pods)])
    flags = [f"--enable-optional-test={test}" for test in _OPTIONAL]
    flags += [f"--ignore-test={test}" for test in _IGNORED]
    for scored in (
        _json("kube-score", "score", "--output-format=json", *flags, "-", text=text) or ()
    ):
        where = f"{scored['type_meta']['kind']}/{scored['object_meta']['name']}"
        for check in scored["checks"]:
            if check["skipped"] or check["grade"] >= _ALL_OK:
                continue
            for said in check["comments"] or ():
                problem = f"{check['check']['id']}: {said['path']}: {said['summary']}"
                yield Finding("kube-score", where, problem, said["description"])


def dockerfile(path: Path) -> list[Finding]:
    """What hadolint finds, such as an image without a version or a user that is root."""
    found = _json("hadolint", "--format=json", "--failure-threshold=none", str(path))
    return [
        Finding("hadolint", f"{path.name}:{each['line']}", f"{each['code']} {each['message']}")
        for each in found
    ]


def _json(program: str, *arguments: str, text: str = "") -> Any:
    # Without a KUBECONFIG kubectl-validate asks no cluster.
    result = subprocess.run(
        [tool(program), *arguments], input=text, capture_output=True, text=True, check=False,
        timeout=600, env={**os.environ, "KUBECONFIG": os.devnull},
    )  # fmt: skip
    try:
        return json.loads(result.stdout)
    except json.JSONDecodeError:
        raise ConfigError(f"{program} failed: {result.stderr.strip()}") from None


def _refused(documents: Sequence[str]) -> dict[str, list[Finding]]:
    """What kubectl-validate finds in each, of those in which it finds something."""
    with tempfile.TemporaryDirectory(prefix="oka-k8s-") as folder:
        paths = {f"{folder}/{n}.yaml": document for n, document in enumerate(documents)}
        for path, document in paths.items():
            Path(path).write_text(document, encoding="utf-8")
        answer = _json(
            "kubectl-validate", f"--local-crds={_SCHEMAS / 'crds'}",
            f"--local-schemas={_SCHEMAS / 'openapi'}", "--output=json", *paths,
        )  # fmt: skip
    found: dict[str, list[Finding]] = {}
    for path, statuses in answer.items():
        for status in (each for each in statuses if each["status"] != "Success"):
            where = _name(paths[path])
            causes = (status.get("details") or {}).get("causes") or [{"message": status["message"]}]
            for cause in causes:
                said = re.sub(r" in body |, regex used for validation is .*", " ", cause["message"])
                problem = f"{cause.get('field', '')}: {said}".strip(": ")
                found.setdefault(paths[path], []).append(Finding("schema", where, problem))
    return found


def _name(text: str) -> str:
    try:
        return name(yaml.load(text, yaml.CSafeLoader))
    except (yaml.YAMLError, AttributeError):  # no YAML, or no mapping
        return "a document"


_OPTIONAL = (
    "container-ephemeral-storage-request-equals-limit",
    "container-ports-check",
    "container-resource-requests-equal-limits",
)
# KubeRay makes the probes; user 1000 and images that a node has are what we want.
_IGNORED = (
    "container-image-pull-policy", "container-security-context-user-group-id", "pod-probes",
)  # fmt: skip
_ALL_OK = 10
