"""KubeRay's own rules, in k8s/schemas/rules.yaml: what the operator refuses, the check does, too.

`make k8s-kuberay` builds the operator's code (tests/unit/k8s/kuberay); where it is there, it is
asked. Rules of 1.7 that the Go proxy's newest version, 1.6.1, does not have are tried without it.
"""

from __future__ import annotations

import copy
import json
import re
import subprocess
from typing import Any

import pytest
import yaml

from k8s.check.finding import Finding
from k8s.check.programs import schemas
from k8s.manifests import FOLDER, Document, dump, of_kind
from k8s.tools import ROOT
from tests.unit.k8s.tried import edit

RULES = FOLDER / "schemas" / "rules.yaml"
PROGRAM = ROOT / ".k8s" / "bin" / "kuberay-validate"
CLUSTER = "rayClusterSpec"
HEAD = f"{CLUSTER} headGroupSpec"
GROUP = f"{CLUSTER} workerGroupSpecs 0"
RULE = {"policy": "DeleteCluster", "condition": {"jobStatus": "FAILED"}}
V2 = {"name": "RAY_enable_autoscaler_v2", "value": "1"}
SELECTED = {"rayClusterSpec": None, "backoffLimit": 0, "submissionMode": "HTTPMode"}
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("exclude each other", {"deletionStrategy": {"deletionRules": [RULE]}}),
    (
        "one policy and one status",
        {
            "deletionStrategy": {"deletionRules": [RULE, RULE]},
            "shutdownAfterJobFinishes": False,
            "ttlSecondsAfterFinished": 0,
        },
    ),
    (
        "not DeleteNone",
        {
            "deletionStrategy": {
                "onSuccess": {"policy": "DeleteNone"},
                "onFailure": {"policy": "DeleteNone"},
            }
        },
    ),
    ("ttlSecondsAfterFinished", {"shutdownAfterJobFinishes": False}),
    ("ttlSecondsAfterFinished", {"ttlSecondsAfterFinished": -1}),
    (
        "suspend needs",
        {"suspend": True, "shutdownAfterJobFinishes": False, "ttlSecondsAfterFinished": 0},
    ),
    ("activeDeadlineSeconds", {"activeDeadlineSeconds": 0}),
    ("preRunningDeadlineSeconds", {"preRunningDeadlineSeconds": 0}),
    ("backoffLimit", {"backoffLimit": -1}),
    ("rayClusterSpec and clusterSelector", {"rayClusterSpec": None}),
    ("names ray.io/cluster", {**SELECTED, "clusterSelector": {"app": "oka"}}),
    (
        "takes no suspend",
        {**SELECTED, "clusterSelector": {"ray.io/cluster": "oka"}, "backoffLimit": 1},
    ),
    ("InteractiveMode", {"submissionMode": "InteractiveMode"}),
    ("SidecarMode", {"submissionMode": "SidecarMode"}),
    ("of headGroupSpec", {f"{HEAD} resources": {"CPU": "1"}}),
    ("of a worker group", {f"{GROUP} rayStartParams num-cpus": "1"}),
    ("labels of the group", {f"{GROUP} rayStartParams labels": "a=b"}),
    ("above maxReplicas", {f"{GROUP} minReplicas": 9}),
    (
        "is suspended",
        {f"{GROUP} suspend": True, f"{CLUSTER} enableInTreeAutoscaling": True},
    ),
    (
        "RAY_enable_autoscaler_v2",
        {
            f"{HEAD} template spec containers 0 env +": {
                "name": "RAY_enable_autoscaler_v2",
                "value": "1",
            }
        },
    ),
    ("idleTimeoutSeconds", {f"{GROUP} idleTimeoutSeconds": 60}),
    (
        "password of Redis",
        {
            f"{CLUSTER} gcsFaultToleranceOptions": {"redisAddress": "redis:6379"},
            f"{HEAD} rayStartParams redis-password": "a",
        },
    ),
    ("user of Redis", {f"{HEAD} rayStartParams redis-username": "a"}),
    ("2.52.0", {f"{CLUSTER} rayVersion": "2.51.0"}),
    ("enableK8sTokenAuth", {f"{CLUSTER} authOptions enableK8sTokenAuth": True}),
    ("name must have", {"name": f"oka-{'a' * 44}"}),
    ("name must have", {"name": "1oka"}),
]
OF_1_7: list[tuple[str, dict[str, Any]]] = [
    ("feature gates", {f"{CLUSTER} networkPolicy": {"mode": "DenyAll"}}),
    ("feature gates", {f"{CLUSTER} tlsOptions": {"enabled": True}}),
    ("rocksdb", {f"{CLUSTER} gcsFaultToleranceOptions": {"backend": "rocksdb"}}),
    # A mode that the operator does not know matches no branch of it: nothing submits the job.
    ("submissionMode", {"submissionMode": "K8JobMode"}),
    # `ValidateRayClusterUpgradeOptions` refuses it.
    ("upgradeStrategy", {f"{CLUSTER} upgradeStrategy": {"type": "Recreate"}}),
]


def changed(job: Document, edits: dict[str, Any]) -> Document:
    found = copy.deepcopy(job)
    for path, value in edits.items():
        edit(found["metadata"] if path == "name" else found["spec"], path.split(" "), value)
    return found


def refused(documents: list[Document]) -> list[list[Finding]]:
    found = schemas([dump([each]) for each in documents])
    return [[each for each in said if not each.level] for said in found]


@pytest.fixture
def job(eks: list[Document]) -> Document:
    """A RayJob of the overlay `eks`."""
    found: Document = of_kind(eks, "RayJob")[-1]
    return found


def test_what_kuberay_refuses_is_an_error(job: Document) -> None:
    tried = REFUSED + OF_1_7
    found = refused([job, *(changed(job, edits) for _, edits in tried)])
    assert found[0] == []
    for (message, edits), said in zip(tried, found[1:], strict=True):
        assert any(message in str(each) for each in said), (message, edits, said)


@pytest.mark.skipif(not PROGRAM.is_file(), reason="make k8s-kuberay builds KubeRay's validation")
def test_kuberay_refuses_the_same(job: Document) -> None:
    documents = [job, *(changed(job, edits) for _, edits in REFUSED)]
    told = subprocess.run(
        [str(PROGRAM)], input=json.dumps(documents), capture_output=True, text=True, check=True
    )
    answers = json.loads(told.stdout)
    assert answers[0] == ""
    taken = [edits for (_, edits), said in zip(REFUSED, answers[1:], strict=True) if not said]
    assert taken == []


def test_the_options_of_ray_start_are_those_of_ray() -> None:
    from ray.scripts.scripts import start

    (listed,) = {*re.findall(r"k in (\['address'[^\]]*\])", RULES.read_text(encoding="utf-8"))}
    known = {name for each in start.params for name in each.opts if name.startswith("--")}
    assert sorted(known) == [f"--{each}" for each in yaml.safe_load(listed)]
