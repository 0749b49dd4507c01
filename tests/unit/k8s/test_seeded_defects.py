"""Mistakes seeded into the sources, each alone, and the layer that catches it.

The table of k8s/README.md is this list: it is compared here, so that it cannot go out of date.
"""

from __future__ import annotations

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.errors import ConfigError
from k8s.check.programs import dockerfile
from k8s.check.report import check, check_folder
from k8s.check.subject import Subject
from k8s.manifests import FOLDER

README = FOLDER / "README.md"


@dataclass(frozen=True)
class Defect:
    """One edit: in `file`, the first `old` becomes `new`; `caught` by a layer, or by none."""

    what: str
    file: str
    old: str
    new: str
    caught: str
    message: str = ""

    @property
    def overlay(self) -> str:
        """The overlay that has the file; `eks` where all have it."""
        if "monitoring" in self.file:
            return "eks-monitored"
        found = re.match(r"overlays/(dev|serving)/", self.file)
        return found.group(1) if found else "eks"


CLUSTER = "base/raycluster.yaml"
JOBS = "base/rayjobs.yaml"
POLICY = "base/network-policy.yaml"
BUDGETS = "base/disruption-budgets.yaml"
SIZES = "overlays/eks/sizes.yaml"
SETTINGS = "overlays/eks/settings/word-count.yaml"
EKS = "eks/cluster.yaml"
AWS = "overlays/eks/egress-to-aws.yaml"
MONITOR = "components/monitoring/pod-monitor.yaml"
IMAGE = "../Dockerfile"
SERVING = "overlays/serving/serving.yaml"
ANOTHER_GROUP = """
  - groupName: operators
    minReplicas: 0
    maxReplicas: 0
    rayStartParams: *params
    template:
      metadata: *metadata
      spec:
        <<: *pod
        containers: [{<<: *container, name: ray}]
"""
VOLUMES = "        volumes: *worker-volumes\n"

# fmt: off
DEFECTS = (
    # What is built
    Defect("a key twice", JOBS, "  backoffLimit: 1 ", "  backoffLimit: 1\n  backoffLimit: 2 ",
           "kustomize", "already defined"),
    Defect("a file that is not there", "overlays/eks/kustomization.yaml", "- egress-to-aws.yaml",
           "- egress.yaml", "kustomize", "egress.yaml"),
    Defect("a patch of a group that is not there", "overlays/eks/cluster/kustomization.yaml",
           "Specs/1/", "Specs/2/", "kustomize"),
    Defect("a size with a typo", SIZES, "  plasma", "  plsama", "kustomize", "plasma"),
    # What the API server would refuse
    Defect("a field with a typo", CLUSTER, "rayVersion:", "rayversion:", "schema", "rayversion"),
    Defect("a field in the wrong place", CLUSTER, "    terminationGracePeriodSeconds: 90",
           "    terminationGracePeriod: 90", "schema", "terminationGracePeriod"),
    Defect("a text where a number belongs", JOBS, "activeDeadlineSeconds: 1800",
           'activeDeadlineSeconds: "1800"', "schema", "must be of type integer"),
    Defect("a version of the API that does not exist", JOBS, "ray.io/v1", "ray.io/v2", "schema",
           "ray.io/v2"),
    Defect("an amount of memory that does not parse", SIZES, "memory: 8Gi", "memory: 8GiB",
           "schema", "8GiB"),
    Defect("a label value with a space", CLUSTER, "app.kubernetes.io/name: oka\n          app",
           "app.kubernetes.io/name: o ka\n          app", "schema", "a valid label"),
    Defect("a condition of the CRD that does not hold", JOBS, "submissionMode: K8sJobMode",
           "managedBy: me", "schema", "managedBy field value must be"),
    Defect("eksctl: a field with a typo", EKS, "desiredCapacity:", "desiredCapcity:", "schema",
           "desiredCapcity"),
    # What kube-score knows
    Defect("a network policy that selects no pod", POLICY, "oka.dev/role: submitter\n  policyTypes",
           "oka.dev/role: submiter\n  policyTypes", "kube-score", "doesn't match any pods"),
    Defect("duplicate port names", CLUSTER, "{name: dashboard, c", "{name: metrics, c",
           "kube-score", "named ports must be unique"),
    Defect("a privileged container", CLUSTER, "allowPrivilegeEscalation: false",
           "allowPrivilegeEscalation: false\n              privileged: true", "kube-score",
           "is privileged"),
    Defect("a root that can be written", CLUSTER, "readOnlyRootFilesystem: true",
           "readOnlyRootFilesystem: false", "kube-score", "writable root"),
    Defect("a request below its limit", JOBS, "limits: *submitter-size",
           "limits: {cpu: 600m, memory: 512Mi, ephemeral-storage: 1Gi}", "kube-score",
           "CPU requests does not match limits"),
    Defect("an image without a version", IMAGE, "FROM python:3.11.14-slim-bookworm",
           "FROM python:latest", "hadolint", "DL3007"),
    # The cluster, its pods and Ray in them
    Defect("a Ray resource that does not parse", SIZES, 'operator_slot: "6"',
           'operator_slot: "6 slots"', "ray-options", "6 slots"),
    Defect("an option of Ray's with a typo", CLUSTER, "metrics-export-port:", "metric-export-port:",
           "ray-options", "metric-export-port"),
    Defect("resources in two places", CLUSTER, 'object-store-memory: ""',
           'num-cpus: "4"\n        object-store-memory: ""', "ray-options", "one or the other"),
    Defect("two groups of one name", CLUSTER, VOLUMES, VOLUMES + ANOTHER_GROUP, "names",
           "2 groups are called 'operators'"),
    Defect("another Ray in the image", "base/kustomization.yaml", "-ray2.60.0", "-ray2.59.0",
           "ray-version", "-ray2.59.0"),
    Defect("another Ray in the cluster", CLUSTER, "rayVersion: 2.60.0", "rayVersion: 2.59.0",
           "ray-version", "rayVersion is '2.59.0'"),
    Defect("an autoscaler", CLUSTER, "enableInTreeAutoscaling: false",
           "enableInTreeAutoscaling: true", "fixed-size", "enableInTreeAutoscaling"),
    Defect("tasks on the head", CLUSTER, 'num-cpus: "0"', 'num-cpus: "2"', "fixed-size",
           "num-cpus is '2'"),
    Defect("groups that may grow", "components/jobs/kustomization.yaml",
           "[groupName=operators].maxReplicas", "[groupName=operators].numOfHosts", "fixed-size",
           "expected one number"),
    Defect("two Ray pods on a node", CLUSTER, "topologyKey: kubernetes.io/hostname",
           "topologyKey: topology.kubernetes.io/zone", "one-per-node"),
    Defect("no token", CLUSTER, "    mode: token\n    secretName: oka-ray-token",
           "    mode: disabled", "token", "'disabled'"),
    Defect("a token without a Secret", CLUSTER, "    secretName: oka-ray-token\n", "", "token",
           "secretName is not set"),
    Defect("RAY_AUTH_MODE set by hand", CLUSTER, "- {name: HOME,",
           "- {name: RAY_AUTH_MODE, value: disabled}\n            - {name: HOME,", "token",
           "RAY_AUTH_MODE is 'disabled'"),
    Defect("a dashboard that is open to the world", CLUSTER, "serviceType: ClusterIP",
           "serviceType: LoadBalancer", "closed-services", "LoadBalancer"),
    Defect("Ray that reports its usage", CLUSTER, 'RAY_USAGE_STATS_ENABLED, value: "0"',
           'RAY_USAGE_STATS_ENABLED, value: "1"', "usage-statistics"),
    Defect("a container that may become root", CLUSTER, "allowPrivilegeEscalation: false",
           "allowPrivilegeEscalation: true", "restricted", "allowPrivilegeEscalation"),
    Defect("a container with capabilities", CLUSTER, "drop: [ALL]",
           "drop: [ALL]\n                add: [SYS_ADMIN]", "restricted", "SYS_ADMIN"),
    Defect("seccomp Localhost without a profile", CLUSTER, "type: RuntimeDefault\n        volumes",
           "type: Localhost\n        volumes", "restricted", "'Localhost'"),
    Defect("a pod in the node's network", CLUSTER, "enableServiceLinks: false", "hostNetwork: true",
           "restricted", "hostNetwork"),
    Defect("a folder of the node", CLUSTER, "&home {name: home, emptyDir: {sizeLimit: 1Gi}}",
           "&home {name: home, hostPath: {path: /}}", "restricted", "hostPath"),
    Defect("a token for Kubernetes itself", CLUSTER, "automountServiceAccountToken: false",
           "automountServiceAccountToken: true", "restricted",
           "automountServiceAccountToken is True"),
    Defect("a namespace that takes any pod", "base/namespace.yaml", "enforce: restricted",
           "enforce: restrictd", "pod-security", "'restrictd'"),
    Defect("workingDir with a typo", CLUSTER, "workingDir: /opt/oka", "workingDir: /opt/oak",
           "image", "workingDir is /opt/oak"),
    Defect("another user than the image's", CLUSTER, "runAsUser: 1000", "runAsUser: 1001", "image",
           "runAsUser is 1001"),
    Defect("a service account with a typo", CLUSTER, "serviceAccountName: oka",
           "serviceAccountName: oak", "references", "ServiceAccount/oak"),
    Defect("a mount of no volume", CLUSTER, "&shm-mount {name: shm,", "&shm-mount {name: sham,",
           "references", "'sham'"),
    Defect("a ConfigMap that jobs share", "components/jobs/kustomization.yaml",
           "RayJob, name: oka-word-count, fieldPath: metadata.name",
           "RayJob, name: oka-model-broadcast, fieldPath: metadata.name", "references",
           "is of RayJob"),
    Defect("a ConfigMap that may change", "overlays/eks/kustomization.yaml",
           "word-count.yaml], options: {immutable: true}",
           "word-count.yaml], options: {immutable: false}", "references", "immutable"),
    Defect("a submitter that is no job's", JOBS,
           "        app.kubernetes.io/component: word-count\n        oka.dev", "        oka.dev",
           "references", "its label"),
    Defect("shared memory elsewhere", CLUSTER, "mountPath: /dev/shm", "mountPath: /dev/smh",
           "image", "/dev/shm"),
    Defect("a home that cannot be written", CLUSTER, "HOME, value: /home/oka",
           "HOME, value: /home/oak", "image", "no emptyDir at /home/oak"),
    Defect("a preStop command with a typo", CLUSTER, "[oka, k8s, drain]", "[oka, k8s, drian]",
           "drain", "drian"),
    Defect("a preStop option with a typo", CLUSTER, "[oka, k8s, drain]",
           "[oka, k8s, drain, --second=9]", "drain", "--second"),
    Defect("DRAIN_SECONDS: 60s", CLUSTER, 'DRAIN_SECONDS, value: "60"', "DRAIN_SECONDS, value: 60s",
           "drain", "'60s'"),
    Defect("a pod that is killed while it drains", CLUSTER, "PeriodSeconds: 90",
           "PeriodSeconds: 60", "drain", "all of 60 s"),
    Defect("an object store larger than /dev/shm", SIZES, "2147483648", "6442450944", "memory",
           "is '6442450944'"),
    Defect("an object store that does not parse", SIZES, '"2147483648"', "2GB", "memory", "'2GB'"),
    Defect("too little memory for the slots", SIZES, "memory: 8Gi", "memory: 6Gi", "memory",
           "has a limit of 6Gi"),
    Defect("a volume larger than the disk", SIZES, "tmp: 8Gi", "tmp: 20Gi", "disk",
           "volumes have 21Gi"),
    # Jobs
    Defect("a Ray resource with a typo", SIZES, 'operator_slot: "6"', 'operator_slots: "6"',
           "tasks", "found no place"),
    Defect("more tasks than slots", SETTINGS, "parallelism: 12", "parallelism: 40", "tasks",
           "found no place"),
    Defect("a setting with a typo", SETTINGS, "parallelism: 12", "paralelism: 12", "tasks",
           "unknown setting 'paralelism'"),
    Defect("a pipeline that is not there", JOBS, "word_count.py", "wordcount.py", "tasks",
           "does not exist"),
    Defect("an option of oka with a typo", JOBS, "--config /etc/oka/word-count",
           "--confg /etc/oka/word-count", "tasks", "No such option"),
    Defect("settings that are not mounted", JOBS, "/etc/oka/word-count", "/etc/oak/word-count",
           "tasks", "expected a file of the job's ConfigMap"),
    Defect("a quote that does not end", JOBS, "repeat=20", "'repeat=20", "tasks",
           "an entrypoint that is not `oka run"),
    Defect("a job that runs on the head alone", SETTINGS, "runtime: ray", "runtime: local", "tasks",
           "expected 'ray'"),
    Defect("a job that waits for ever", JOBS, "submissionMode", "suspend: true\n  submissionMode",
           "job-ends", "suspend is True"),
    Defect("backoffLimit: -1", JOBS, "backoffLimit: 1 ", "backoffLimit: -1 ", "job-ends",
           "backoffLimit is -1"),
    Defect("a deadline of 0", JOBS, "activeDeadlineSeconds: 1800", "activeDeadlineSeconds: 0",
           "job-ends", "activeDeadlineSeconds is 0"),
    Defect("a cluster that stays when the job is done", JOBS, "  shutdownAfterJobFinishes: true\n",
           "", "job-ends", "shutdownAfterJobFinishes"),
    Defect("a mode of submission with a typo", JOBS, "K8sJobMode", "K8JobMode", "submitter",
           "'K8JobMode'"),
    Defect("a budget in percent", BUDGETS, "  minAvailable: 1\n", "  minAvailable: 50%\n",
           "budgets", "'50%'"),
    Defect("a budget for more pods than there are", SIZES, "loaders: 3, all: 5",
           "loaders: 3, all: 6", "budgets", "minAvailable is 6"),
    Defect("a budget that selects nobody", BUDGETS, "component: word-count\n      ray",
           "component: wordcount\n      ray", "budgets", "expected 1 to 0"),
    Defect("two budgets for a pod", BUDGETS, "component: cluster\n      ray.io/node-type: head",
           "part-of: oka", "budgets"),
    # Networks
    Defect("ports that the policy does not name", SETTINGS, "20000-20999", "21000-21999",
           "policies", "21000-21999"),
    Defect("a port of Ray's that the policy does not name", CLUSTER, '"6702"', '"6802"', "policies",
           "6802"),
    Defect("more ports than are configured", POLICY, "endPort: 20999", "endPort: 21999", "policies",
           "21999"),
    Defect("ports of jobs among Ray's", SETTINGS, "20000-20999", "19000-20999", "ports",
           "has ports of Ray's"),
    Defect("a port that Ray picks", CLUSTER, '        node-manager-port: "6701"\n', "", "ports",
           "node-manager-port"),
    Defect("a typo in the namespace of DNS", POLICY, "kube-system", "kube-sytem", "policies",
           "DNS"),
    Defect("the submitter's port 8625", POLICY, "port: 8265}\n  - to", "port: 8625}\n  - to",
           "policies", "8625"),
    Defect("an operator that cannot reach the dashboard", POLICY, "name: kuberay-operator",
           "name: kuberay-operater", "policies", "the operator"),
    Defect("a CIDR of /160", AWS, "192.168.0.0/16\n    ports", "192.168.0.0/160\n    ports",
           "policies", "/160"),
    Defect("another network than the VPC's", AWS, "192.168.0.0/16\n    ports",
           "10.0.0.0/16\n    ports", "policies", "AWS"),
    Defect("a policy that lets out to everybody", AWS, "192.168.0.0/16\n    ports",
           "0.0.0.0/0\n    ports", "policies", "0.0.0.0/0"),
    Defect("a policy without ports", AWS, "    ports:\n    - {protocol: TCP, port: 443}\n", "",
           "policies", "all ports"),
    Defect("a typo in the PodMonitor's port", MONITOR, "port: metrics", "port: metrcis", "monitors",
           "'metrcis'"),
    Defect("a PodMonitor that selects nobody", MONITOR, "app.kubernetes.io/name: oka",
           "app.kubernetes.io/name: oak", "monitors", "selects no pod, or no port"),
    Defect("a typo in Prometheus' namespace", "components/monitoring/network-policy.yaml",
           "name: monitoring", "name: montioring", "policies", "Prometheus"),
    # Nodes
    Defect("nodes too small for their pods", EKS, "c7i.2xlarge", "c7i.large", "nodes",
           "asks for 7 CPUs"),
    Defect("2 worker nodes instead of 4", EKS, "desiredCapacity: 4", "desiredCapacity: 2", "nodes",
           "2 nodes"),
    Defect("a label that no node has", EKS, "oka.dev/node: worker", "oka.dev/node: wroker", "nodes",
           "0 nodes"),
    Defect("more disk than a node has", SIZES, "ephemeral-storage: 10Gi", "ephemeral-storage: 60Gi",
           "nodes", "60Gi of disk"),
    Defect("a dev pod of 40 Gi", "overlays/dev/sizes.yaml", "memory: 4Gi", "memory: 40Gi", "nodes",
           "40Gi of memory"),
    Defect("a dev node without memory", "overlays/dev/cluster/kustomization.yaml", "memory=12Gi",
           "memory=12GB", "nodes", "12GB"),
    Defect("workers in another zone than the head's disk", EKS,
           "  maxSize: 12\n  availabilityZones: [eu-central-1a]",
           "  maxSize: 12\n  availabilityZones: [eu-central-1b]", "eks", "eu-central-1b"),
    Defect("zones of another region", EKS, "region: eu-central-1", "region: eu-west-1", "eks",
           "eu-west-1"),
    Defect("enableNetworkPolicy: false", EKS, '"enableNetworkPolicy": "true"',
           '"enableNetworkPolicy": "false"', "eks", "enableNetworkPolicy"),
    Defect("a service account named otherwise in eksctl's file", EKS, "      name: oka\n",
           "      name: oka-pods\n", "eks", "oka-pods"),
    Defect("roles without OIDC", EKS, "withOIDC: true", "withOIDC: false", "eks", "withOIDC"),
    Defect("an instance type with a typo", EKS, "c7i.2xlarge", "c7i.2xlrage", "eks", "2xlrage"),
    Defect("a version of EKS that is not checked", EKS, 'version: "1.36"', 'version: "1.34"', "eks",
           "1.34"),
    Defect("a role for two buckets", EKS, "oka-models-example/models", "somebody-elses/models",
           "eks", "somebody-elses"),
    # Serving
    Defect("a field of a Deployment with a typo", SERVING, "terminationGracePeriodSeconds: 50",
           "terminationGracePeriod: 50", "schema", "terminationGracePeriod"),
    Defect("a Service that selects nothing", SERVING, "spec:\n  selector:\n    app.kubernetes.io/",
           "spec:\n  selector:\n    app.k8s.io/", "services", "selects no pod"),
    Defect("a Service of a port that nobody opens", SERVING, "targetPort: http",
           "targetPort: https", "services", "targetPort"),
    Defect("a probe of another path", SERVING, "path: /-/readyz", "path: /ready", "serving",
           "/ready"),
    Defect("a drain that is cut short", SERVING, "--drain-seconds=40", "--drain-seconds=45",
           "serving", "of 50 s"),
    Defect("clients on another port", SERVING, "port: 8000}\n  egress", "port: 8080}\n  egress",
           "policies", "8000"),
    # What no check without a cluster can tell
    Defect("a Secret that nobody made", CLUSTER, "oka-ray-token", "oka-token", ""),
    Defect("a registry that does not have the image", "base/kustomization.yaml", "newTag: 0.1.0",
           "newTag: 0.1.9", ""),
)
# fmt: on


def copied(folder: Path, defect: Defect | None = None) -> Path:
    """A copy of the manifests with the Dockerfile beside, and the defect in it."""
    copy = folder / "k8s"
    shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns("*.py", "schemas", "__pycache__"))
    shutil.copy(FOLDER.parent / "Dockerfile", folder)
    if defect is not None:
        path = copy / defect.file
        text = path.read_text(encoding="utf-8")
        assert defect.old in text, defect.what
        path.write_text(text.replace(defect.old, defect.new, 1), encoding="utf-8")
    return copy


@pytest.fixture(scope="module")
def objections(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[str, str]]]:
    """What objects to each defect: the layer, and what it says. Tools look at all in one run."""

    def built(defect: Defect, folder: Path) -> Subject | str:
        copy = copied(folder, defect)
        try:
            return Subject.of_overlay(copy / "overlays" / defect.overlay)
        except ConfigError as error:
            return error.message

    folders = [tmp_path_factory.mktemp("seeded") for _ in DEFECTS]  # which is for one thread
    with ThreadPoolExecutor(2) as threads:
        subjects = dict(zip(DEFECTS, threads.map(built, DEFECTS, folders), strict=True))
    sound = {each: found for each, found in subjects.items() if isinstance(found, Subject)}
    found = {
        each.what: [("kustomize", message)]
        for each, message in subjects.items()
        if isinstance(message, str)
    }
    for defect, findings in zip(sound, check(list(sound.values())), strict=True):
        if defect.file == IMAGE:
            findings += dockerfile(sound[defect].folder.parent / "Dockerfile")
        found[defect.what] = [(each.check, str(each)) for each in findings]
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.what)
def test_a_defect_is_caught_by_its_layer(
    defect: Defect, objections: dict[str, list[tuple[str, str]]]
) -> None:
    found = objections[defect.what]
    if not defect.caught:
        assert found == []
        return
    assert defect.caught in [layer for layer, _ in found], found
    assert any(defect.message in text for by, text in found if by == defect.caught), found


def test_nearly_all_are_caught_and_the_readme_lists_them() -> None:
    assert sum(bool(defect.caught) for defect in DEFECTS) / len(DEFECTS) >= 38 / 40
    rows = [f"| {defect.what} | {told(defect.caught)} |" for defect in DEFECTS]
    assert "\n".join(rows) in README.read_text(encoding="utf-8")


def told(layer: str) -> str:
    tools = {"": "none: only a cluster knows", "schema": "schema (kubectl-validate)"}
    tools |= {tool: tool for tool in ("kustomize", "kube-score", "hadolint")}
    return tools.get(layer, f"lint `{layer}`")


def test_every_overlay_of_a_folder_is_checked(tmp_path: Path) -> None:
    copy = copied(tmp_path)
    for name, file, old, new in (
        ("staging", "settings/word-count.yaml", "parallelism: 12", "parallelism: 40"),
        ("mine", "egress-to-aws.yaml", "192.168.0.0/16\n", "192.168.0.0/160\n"),
    ):
        overlay = copy / "overlays" / name
        shutil.copytree(copy / "overlays" / "eks", overlay)
        text = (overlay / file).read_text(encoding="utf-8")
        assert old in text
        (overlay / file).write_text(text.replace(old, new), encoding="utf-8")
    found = {(each.where.split()[0], each.check) for each in check_folder(copy)}
    assert found == {("staging", "tasks"), ("mine", "policies")}
