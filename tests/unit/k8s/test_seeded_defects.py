"""Mistakes seeded into the sources, each alone, and the layer that catches it.

The table of k8s/README.md is this list: it is compared here, so that it cannot go out of date.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.errors import ConfigError
from k8s.check.dockerfile import dockerfile
from k8s.check.finding import Finding
from k8s.check.lints import lint
from k8s.check.nodes import nodes_hold_pods
from k8s.check.schemas import schema_of_file, schemas
from k8s.manifests import FOLDER, build, load

README = FOLDER / "README.md"
ROOT = FOLDER.parent


@dataclass(frozen=True)
class Defect:
    """One edit: in `file`, the first `old` becomes `new`; `caught` by a layer, or by none."""

    what: str
    file: str
    old: str
    new: str
    caught: str
    message: str = ""


CLUSTER = "base/raycluster.yaml"
JOBS = "base/rayjobs.yaml"
NODES = "overlays/eks/cluster/nodes.yaml"
SETTINGS = "overlays/eks/settings/word-count.yaml"
POLICY = "base/network-policy.yaml"
BUDGETS = "base/disruption-budgets.yaml"

ANOTHER_GROUP = """
  - groupName: operators
    minReplicas: 0
    maxReplicas: 0
    template:
      metadata: *metadata
      spec:
        <<: *pod
        containers: [{<<: *container, name: ray}]
"""

DEFECTS = (
    Defect("a key twice", JOBS, "  backoffLimit: 1 ", "  backoffLimit: 1\n  backoffLimit: 2 ",
           "kustomize", "already defined"),
    Defect("a file that is not there", "overlays/eks/kustomization.yaml", "- egress-to-aws.yaml",
           "- egress.yaml", "kustomize", "egress.yaml"),
    Defect("a patch of a group that is not there", NODES, "/spec/workerGroupSpecs/1/",
           "/spec/workerGroupSpecs/2/", "kustomize"),
    Defect("a field with a typo", CLUSTER, "rayVersion:", "rayversion:", "schema", "rayversion"),
    Defect("a field in the wrong place", CLUSTER, "    terminationGracePeriodSeconds: 90",
           "    terminationGracePeriod: 90", "schema", "terminationGracePeriod"),
    Defect("a text where a number belongs", CLUSTER, "    replicas: 3", '    replicas: "3"',
           "schema", "replicas"),
    Defect("a version of the API that does not exist", JOBS, "ray.io/v1", "ray.io/v2", "schema",
           "schema"),
    Defect("eksctl: a field with a typo", "eks/cluster.yaml", "desiredCapacity:",
           "desiredCapcity:", "schema", "desiredCapcity"),
    Defect("an amount of memory that does not parse", NODES, "memory: 8Gi", "memory: 8GiB",
           "lint quantities", "8GiB"),
    Defect("a Ray resource that does not parse", NODES, 'operator_slot: "6"',
           'operator_slot: "6 slots"', "lint quantities", "6 slots"),
    Defect("a Ray resource with a typo", NODES, 'operator_slot: "6"', 'operator_slots: "6"',
           "lint tasks", "found no place"),
    Defect("more tasks than slots", SETTINGS, "parallelism: 12", "parallelism: 40", "lint tasks",
           "found no place"),
    Defect("a setting with a typo", SETTINGS, "parallelism: 12", "paralelism: 12", "lint tasks",
           "unknown setting 'paralelism'"),
    Defect("a pipeline that is not there", JOBS, "word_count.py", "wordcount.py", "lint tasks",
           "does not exist"),
    Defect("two groups of one name", CLUSTER, "        volumes: *worker-volumes\n",
           "        volumes: *worker-volumes\n" + ANOTHER_GROUP,
           "lint unique-groups", "2 groups are called 'operators'"),
    Defect("no token", CLUSTER, "    mode: token\n    secretName: oka-ray-token",
           "    mode: disabled", "lint token", "disabled"),
    Defect("RAY_AUTH_MODE set by hand", CLUSTER, "            - {name: HOME,",
           "            - {name: RAY_AUTH_MODE, value: disabled}\n            - {name: HOME,",
           "lint token", "RAY_AUTH_MODE is set by hand"),
    Defect("a dashboard that is open to the world", CLUSTER, "serviceType: ClusterIP",
           "serviceType: LoadBalancer", "lint closed-services", "LoadBalancer"),
    Defect("another Ray in the image", "base/kustomization.yaml", "-ray2.60.0", "-ray2.59.0",
           "lint ray-version", "has Ray 2.59.0"),
    Defect("a budget in percent", BUDGETS, "  minAvailable: 1\n", "  minAvailable: 50%\n",
           "lint budgets", "'50%'"),
    Defect("a budget for more pods than there are", "base/sizes.yaml", "  pods: 5", "  pods: 6",
           "lint budgets", "minAvailable is 6"),
    Defect("ports that the policy does not name", SETTINGS, "20000-20999", "21000-21999",
           "lint policy-ports", "21000-21999"),
    Defect("a port of Ray's that the policy does not name", CLUSTER, '"6702"', '"6802"',
           "lint policy-ports", "6802"),
    Defect("a policy that lets out to everybody", "overlays/eks/egress-to-aws.yaml",
           "192.168.0.0/16\n    ports", "0.0.0.0/0\n    ports", "lint isolation", "everybody"),
    Defect("a privileged container", CLUSTER, "allowPrivilegeEscalation: false",
           "privileged: true", "lint restricted", "privileged is true"),
    Defect("a root that can be written", CLUSTER, "readOnlyRootFilesystem: true",
           "readOnlyRootFilesystem: false", "lint read-only-root", "not true"),
    Defect("a request below its limit", NODES, "cpu: \"7\"", "cpu: \"5\"", "lint reserved", "'5'"),
    Defect("an object store larger than /dev/shm", NODES, "2147483648", "6442450944",
           "lint object-store", "6Gi"),
    Defect("too little memory for the slots", CLUSTER, "&head-size {cpu: \"2\", memory: 4Gi",
           "&head-size {cpu: \"2\", memory: 2Gi", "lint memory-sum", "has a limit of 2Gi"),
    Defect("a pod that is killed while it drains", CLUSTER, "PeriodSeconds: 90",
           "PeriodSeconds: 60", "lint drain", "DRAIN_SECONDS is 60"),
    Defect("a cluster that stays when the job is done", JOBS, "  shutdownAfterJobFinishes: true\n",
           "", "lint job-ends", "shutdownAfterJobFinishes"),
    Defect("an autoscaler", CLUSTER, "enableInTreeAutoscaling: false",
           "enableInTreeAutoscaling: true", "lint fixed-size", "enableInTreeAutoscaling"),
    Defect("an option of Ray's with a typo", CLUSTER, "metrics-export-port:",
           "metric-export-port:", "lint ray-options", "metric-export-port"),
    Defect("tasks on the head", CLUSTER, 'num-cpus: "0"', 'num-cpus: "2"', "lint idle-head", "2"),
    Defect("a service account with a typo", CLUSTER, "serviceAccountName: oka",
           "serviceAccountName: oak", "lint references", "'oak'"),
    Defect("an image without a version", "../Dockerfile", "FROM python:3.11.14-slim-bookworm",
           "FROM python:latest", "hadolint", "DL3007"),
    Defect("nodes too small for their pods", "eks/cluster.yaml", "c7i.2xlarge", "c7i.large",
           "lint nodes", "asks for 7 CPUs"),
    Defect("a bucket that is not yours", "eks/cluster.yaml", "oka-models-example/models",
           "somebody-elses/models", ""),
    Defect("a Secret that nobody made", CLUSTER, "oka-ray-token", "oka-token", ""),
)  # fmt: skip


def test_the_sources_themselves_have_no_mistake() -> None:
    assert layers_that_object(FOLDER) == []


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.what)
def test_a_defect_is_caught_by_its_layer(defect: Defect, tmp_path: Path) -> None:
    copy = tmp_path / "k8s"
    shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns("__pycache__", "schemas", "*.py"))
    shutil.copy(ROOT / "Dockerfile", tmp_path)
    path = copy / defect.file
    text = path.read_text(encoding="utf-8")
    assert defect.old in text
    path.write_text(text.replace(defect.old, defect.new, 1), encoding="utf-8")
    objections = layers_that_object(copy)
    if not defect.caught:
        assert objections == []
        return
    assert defect.caught in [layer for layer, _ in objections], objections
    assert any(defect.message in text for layer, text in objections if layer == defect.caught)


def test_at_least_18_are_caught_and_the_readme_lists_them_all() -> None:
    assert len(DEFECTS) >= 20
    assert sum(bool(defect.caught) for defect in DEFECTS) >= 18
    rows = [f"| {defect.what} | {layer(defect)} |" for defect in DEFECTS]
    assert "\n".join(rows) in README.read_text(encoding="utf-8")


def layer(defect: Defect) -> str:
    kind, _, name = defect.caught.partition(" ")
    if not kind:
        return "none: only a cluster knows"
    return f"{kind} `{name}`" if name else {"schema": "schema (kubeconform)"}.get(kind, kind)


def outside(check: Callable[[Path], list[Finding]], path: Path) -> list[str]:
    """What a check of one file finds, which is nothing new where the file is as it was."""
    text = path.read_text(encoding="utf-8")
    if (check, text) not in FOUND:
        FOUND[check, text] = [str(finding) for finding in check(path)]
    return FOUND[check, text]


FOUND: dict[tuple[object, str], list[str]] = {}


def layers_that_object(folder: Path) -> Sequence[tuple[str, str]]:
    """Each layer, in turn, with what it says; lints look only at what the schemas let through."""
    found = [("hadolint", each) for each in outside(dockerfile, folder.parent / "Dockerfile")]
    found += [("schema", each) for each in outside(schema_of_file, folder / "eks/cluster.yaml")]
    try:
        documents = build(folder / "overlays" / "eks")
    except ConfigError as error:
        return [*found, ("kustomize", error.message)]
    (eks,) = load((folder / "eks" / "cluster.yaml").read_text(encoding="utf-8"))
    broken = schemas(documents)
    found += [("schema", str(each)) for each in broken]
    if not broken:
        nodes = nodes_hold_pods(documents, eks) if not found else ()
        found += [("lint nodes", str(each)) for each in nodes]
        found += [(f"lint {each.check}", str(each)) for each in lint(documents)]
    return found
