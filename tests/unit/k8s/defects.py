"""Mistakes in the sources, each an edit of one file, and what finds them."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Defect:
    """One edit: in `file`, the first `old` becomes `new`; found `by` a layer, or by none."""

    what: str
    file: str
    old: str
    new: str
    by: str
    message: str
    says: str

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
    Defect("a key twice", JOBS, "  backoffLimit: 1 ",
           "  backoffLimit: 1\n  backoffLimit: 2 ", "kustomize", "already defined", "error"),
    Defect("a file that is not there", "overlays/eks/kustomization.yaml", "- egress-to-aws.yaml",
           "- egress.yaml", "kustomize", "egress.yaml", "error"),
    Defect("a patch of a group that is not there", "overlays/eks/cluster/kustomization.yaml", "Specs/1/",
           "Specs/2/", "kustomize", "", "error"),
    Defect("a size with a typo", SIZES, "  plasma",
           "  plsama", "kustomize", "plasma", "error"),
    # What the API server would refuse
    Defect("a field with a typo", CLUSTER, "rayVersion:",
           "rayversion:", "schema", "rayversion", "error"),
    Defect("a field in the wrong place", CLUSTER, "    terminationGracePeriodSeconds: 90",
           "    terminationGracePeriod: 90", "schema", "terminationGracePeriod", "error"),
    Defect("a text where a number belongs", JOBS, "activeDeadlineSeconds: 1800",
           "activeDeadlineSeconds: \"1800\"", "schema", "must be of type integer", "error"),
    Defect("a version of the API that does not exist", JOBS, "ray.io/v1",
           "ray.io/v2", "schema", "ray.io/v2", "error"),
    Defect("an amount of memory that does not parse", SIZES, "memory: 8Gi",
           "memory: 8GiB", "schema", "8GiB", "error"),
    Defect("a label value with a space", CLUSTER, "app.kubernetes.io/name: oka\n          app",
           "app.kubernetes.io/name: o ka\n          app", "schema", "a valid label", "error"),
    Defect("a condition of the CRD that does not hold", JOBS, "submissionMode: K8sJobMode",
           "managedBy: me", "schema", "managedBy field value must be", "error"),
    Defect("eksctl: a field with a typo", EKS, "desiredCapacity:",
           "desiredCapcity:", "schema", "desiredCapcity", "error"),
    # What other tools knew
    Defect("a network policy that selects no pod", POLICY, "oka.dev/role: submitter\n  policyTypes",
           "oka.dev/role: submiter\n  policyTypes", "selectors", "selects no pod: none here has {'app.kubernet", "note"),
    Defect("duplicate port names", CLUSTER, "{name: dashboard, c",
           "{name: metrics, c", "schema", "two ports have one name", "error"),
    Defect("a privileged container", CLUSTER, "allowPrivilegeEscalation: false",
           "allowPrivilegeEscalation: false\n              privileged: true", "restricted", "a container is privileged", "error"),
    Defect("a root that can be written", CLUSTER, "readOnlyRootFilesystem: true",
           "readOnlyRootFilesystem: false", "restricted", "readOnlyRootFilesystem is not true", "note"),
    Defect("an image without a version", IMAGE, "FROM python:3.11.14-slim-bookworm",
           "FROM python:latest", "hadolint", "DL3007 Using latest is prone to errors if th", "note"),
    Defect("a request below its limit", JOBS, "limits: *submitter-size",
           "limits: {cpu: 600m, memory: 512Mi, ephemeral-storage: 1Gi}", "memory", "not the limits", "note"),
    # The cluster, its pods and Ray in them
    Defect("a Ray resource that does not parse", SIZES, "operator_slot: \"6\"",
           "operator_slot: \"6 slots\"", "schema", "resources of a worker group have no number, ", "error"),
    Defect("an option of Ray's with a typo", CLUSTER, "metrics-export-port:",
           "metric-export-port:", "schema", "metric-export-port", "error"),
    Defect("resources in two places", CLUSTER, "object-store-memory: \"\"",
           "num-cpus: \"4\"\n        object-store-memory: \"\"", "schema", "resources are set in rayStartParams and in r", "error"),
    Defect("two groups of one name", CLUSTER, VOLUMES,
           VOLUMES + ANOTHER_GROUP, "schema", "two worker groups have one groupName", "error"),
    Defect("another Ray in the image", "base/kustomization.yaml", "-ray2.60.0",
           "-ray2.59.0", "image", "image has the tag 0.1.0-ray2.59.0, which doe", "note"),
    Defect("another Ray in the cluster", CLUSTER, "rayVersion: 2.60.0",
           "rayVersion: 2.59.0", "image", "rayVersion is '2.59.0', and 2.60.0 is tested", "note"),
    Defect("an autoscaler", CLUSTER, "enableInTreeAutoscaling: false",
           "enableInTreeAutoscaling: true", "fixed-size", "enableInTreeAutoscaling", "note"),
    Defect("tasks on the head", CLUSTER, "num-cpus: \"0\"",
           "num-cpus: \"2\"", "fixed-size", "num-cpus of the head is not 0: tasks run bes", "note"),
    Defect("groups that may grow", "components/jobs/kustomization.yaml", "[groupName=operators].maxReplicas",
           "[groupName=operators].numOfHosts", "fixed-size", "minReplicas, replicas and maxReplicas of a g", "note"),
    Defect("two Ray pods on a node", CLUSTER, "topologyKey: kubernetes.io/hostname",
           "topologyKey: topology.kubernetes.io/zone", "ray-options", "no anti-affinity by kubernetes.io/hostna", "note"),
    Defect("no token", CLUSTER, "    mode: token\n    secretName: oka-ray-token",
           "    mode: disabled", "token", "authOptions.mode is not token: whoever reach", "note"),
    Defect("a token without a Secret", CLUSTER, "    secretName: oka-ray-token\n",
           "", "token", "secretName is not set", "note"),
    Defect("RAY_AUTH_MODE set by hand", CLUSTER, "- {name: HOME,",
           "- {name: RAY_AUTH_MODE, value: disabled}\n            - {name: HOME,", "token", "RAY_AUTH_MODE or RAY_AUTH_TOKEN", "note"),
    Defect("a dashboard that is open to the world", CLUSTER, "serviceType: ClusterIP",
           "serviceType: LoadBalancer", "closed-services", "the dashboard is open to more than the clust", "note"),
    Defect("Ray that reports its usage", CLUSTER, "RAY_USAGE_STATS_ENABLED, value: \"0\"",
           "RAY_USAGE_STATS_ENABLED, value: \"1\"", "usage-statistics", "", "note"),
    Defect("a container that may become root", CLUSTER, "allowPrivilegeEscalation: false",
           "allowPrivilegeEscalation: true", "restricted", "allowPrivilegeEscalation", "error"),
    Defect("a container with capabilities", CLUSTER, "drop: [ALL]",
           "drop: [ALL]\n                add: [SYS_ADMIN]", "restricted", "capabilities do not drop ALL, or add others ", "error"),
    Defect("seccomp Localhost without a profile", CLUSTER, "type: RuntimeDefault\n        volumes",
           "type: Localhost\n        volumes", "schema", "the type Localhost, and no other, has a loca", "error"),
    Defect("a pod in the node's network", CLUSTER, "enableServiceLinks: false",
           "hostNetwork: true", "restricted", "hostNetwork", "error"),
    Defect("a folder of the node", CLUSTER, "&home {name: home, emptyDir: {sizeLimit: 1Gi}}",
           "&home {name: home, hostPath: {path: /}}", "restricted", "hostPath", "error"),
    Defect("a token for Kubernetes itself", CLUSTER, "automountServiceAccountToken: false",
           "automountServiceAccountToken: true", "restricted", "automountServiceAccountToken is not false; p", "note"),
    Defect("a namespace that takes any pod", "base/namespace.yaml", "enforce: restricted",
           "enforce: restrictd", "schema", "pod-security label is none of", "error"),
    Defect("workingDir with a typo", CLUSTER, "workingDir: /opt/oka",
           "workingDir: /opt/oak", "image", "workingDir is /opt/oak", "note"),
    Defect("another user than the image's", CLUSTER, "runAsUser: 1000",
           "runAsUser: 1001", "image", "runAsUser is 1001", "note"),
    Defect("a service account with a typo", CLUSTER, "serviceAccountName: oka",
           "serviceAccountName: oak", "references", "ServiceAccount oak", "note"),
    Defect("a mount of no volume", CLUSTER, "&shm-mount {name: shm,",
           "&shm-mount {name: sham,", "schema", "a container mounts what is no volume of the ", "error"),
    Defect("a ConfigMap that jobs share", "components/jobs/kustomization.yaml", "RayJob, name: oka-word-count, fieldPath: metadata.name",
           "RayJob, name: oka-model-broadcast, fieldPath: metadata.name", "references", "is of RayJob", "note"),
    Defect("a ConfigMap that may change", "overlays/eks/kustomization.yaml", "word-count.yaml], options: {immutable: true}",
           "word-count.yaml], options: {immutable: false}", "references", "immutable", "note"),
    Defect("a submitter that is no job's", JOBS, "        app.kubernetes.io/component: word-count\n        oka.dev",
           "        oka.dev", "references", "its label", "note"),
    Defect("shared memory elsewhere", CLUSTER, "mountPath: /dev/shm",
           "mountPath: /dev/smh", "image", "/dev/shm", "note"),
    Defect("a home that cannot be written", CLUSTER, "HOME, value: /home/oka",
           "HOME, value: /home/oak", "image", "no volume is at HOME, which Oka and Ray writ", "note"),
    Defect("a preStop command with a typo", CLUSTER, "[oka, k8s, drain]",
           "[oka, k8s, drian]", "schema", "preStop of a worker group runs an oka that i", "error"),
    Defect("a preStop option with a typo", CLUSTER, "[oka, k8s, drain]",
           "[oka, k8s, drain, --second=9]", "schema", "preStop of a worker group runs an oka that i", "error"),
    Defect("DRAIN_SECONDS: 60s", CLUSTER, "DRAIN_SECONDS, value: \"60\"",
           "DRAIN_SECONDS, value: 60s", "schema", "DRAIN_SECONDS is no number of seconds: oka k", "error"),
    Defect("a pod that is killed while it drains", CLUSTER, "PeriodSeconds: 90",
           "PeriodSeconds: 60", "drain", "DRAIN_SECONDS is not below terminationGraceP", "note"),
    Defect("an object store larger than /dev/shm", SIZES, "2147483648",
           "6442450944", "memory", "more than /dev/shm", "note"),
    Defect("an object store that does not parse", SIZES, "\"2147483648\"",
           "2GB", "memory", "object-store-memory", "note"),
    Defect("too little memory for the slots", SIZES, "memory: 8Gi",
           "memory: 6Gi", "memory", "has a limit of 6Gi", "note"),
    Defect("a volume larger than the disk", SIZES, "tmp: 8Gi",
           "tmp: 20Gi", "disk", "larger than the ephemeral-storage", "note"),
    # Jobs
    Defect("a Ray resource with a typo", SIZES, "operator_slot: \"6\"",
           "operator_slots: \"6\"", "tasks", "found no place", "error"),
    Defect("more tasks than slots", SETTINGS, "parallelism: 12",
           "parallelism: 40", "tasks", "found no place", "error"),
    Defect("a setting with a typo", SETTINGS, "parallelism: 12",
           "paralelism: 12", "tasks", "unknown setting 'paralelism'", "error"),
    Defect("a pipeline that is not there", JOBS, "word_count.py",
           "wordcount.py", "tasks", "does not exist", "note"),
    Defect("an option of oka with a typo", JOBS, "--config /etc/oka/word-count",
           "--confg /etc/oka/word-count", "tasks", "No such option", "error"),
    Defect("settings that are not mounted", JOBS, "/etc/oka/word-count",
           "/etc/oak/word-count", "tasks", "expected a file of the job's ConfigMap", "error"),
    Defect("a quote that does not end", JOBS, "repeat=20",
           "'repeat=20", "tasks", "does not parse", "error"),
    Defect("a job that runs on the head alone", SETTINGS, "runtime: ray",
           "runtime: local", "tasks", "expected 'ray'", "note"),
    Defect("a job that waits for ever", JOBS, "submissionMode",
           "suspend: true\n  submissionMode", "job-ends", "suspend is true: somebody has to resume it, ", "note"),
    Defect("backoffLimit: -1", JOBS, "backoffLimit: 1 ",
           "backoffLimit: -1 ", "schema", "spec.backoffLimit: Invalid value: -1: spec.b", "error"),
    Defect("a deadline of 0", JOBS, "activeDeadlineSeconds: 1800",
           "activeDeadlineSeconds: 0", "schema", "spec.activeDeadlineSeconds: Invalid value: 0", "error"),
    Defect("a cluster that stays when the job is done", JOBS, "  shutdownAfterJobFinishes: true\n",
           "", "job-ends", "shutdownAfterJobFinishes", "note"),
    Defect("a mode of submission with a typo", JOBS, "K8sJobMode",
           "K8JobMode", "schema", "spec.submissionMode: Unsupported value: \"K8J", "error"),
    Defect("a budget in percent", BUDGETS, "  minAvailable: 1\n",
           "  minAvailable: 50%\n", "budgets", "'50%'", "note"),
    Defect("a budget for more pods than there are", SIZES, "loaders: 3, all: 5",
           "loaders: 3, all: 6", "budgets", "minAvailable is 6", "note"),
    Defect("a budget that selects nobody", BUDGETS, "component: word-count\n      ray",
           "component: wordcount\n      ray", "selectors", "selects no pod", "note"),
    Defect("two budgets for a pod", BUDGETS, "component: cluster\n      ray.io/node-type: head",
           "part-of: oka", "selectors", "selects no pod", "note"),
    # Networks
    Defect("ports that the policy does not name", SETTINGS, "20000-20999",
           "21000-21999", "policies", "21000-21999", "error"),
    Defect("a port of Ray's that the policy does not name", CLUSTER, "\"6702\"",
           "\"6802\"", "policies", "6802", "error"),
    Defect("more ports than are configured", POLICY, "endPort: 20999",
           "endPort: 21999", "policies", "21999", "note"),
    Defect("ports of jobs among Ray's", SETTINGS, "20000-20999",
           "19000-20999", "ports", "has ports of Ray's", "error"),
    Defect("a port that Ray picks", CLUSTER, "        node-manager-port: \"6701\"\n",
           "", "policies", "none lets through RayCluster/oka group head ", "error"),
    Defect("a typo in the namespace of DNS", POLICY, "kube-system",
           "kube-sytem", "policies", "DNS", "note"),
    Defect("the submitter's port 8625", POLICY, "port: 8265}\n  - to",
           "port: 8625}\n  - to", "policies", "8625", "note"),
    Defect("an operator that cannot reach the dashboard", POLICY, "name: kuberay-operator",
           "name: kuberay-operater", "policies", "the operator", "note"),
    Defect("a CIDR of /160", AWS, "192.168.0.0/16\n    ports",
           "192.168.0.0/160\n    ports", "schema", "spec.egress[0].to[0].ipBlock.cidr: Invalid v", "error"),
    Defect("another network than the VPC's", AWS, "192.168.0.0/16\n    ports",
           "10.0.0.0/16\n    ports", "policies", "AWS", "note"),
    Defect("a policy that lets out to everybody", AWS, "192.168.0.0/16\n    ports",
           "0.0.0.0/0\n    ports", "policies", "a rule is for everybody", "note"),
    Defect("a policy without ports", AWS, "    ports:\n    - {protocol: TCP, port: 443}\n",
           "", "policies", "all ports", "note"),
    Defect("a typo in the PodMonitor's port", MONITOR, "port: metrics",
           "port: metrcis", "selectors", "names the port 'metrcis', RayCluster/oka gro", "note"),
    Defect("a PodMonitor that selects nobody", MONITOR, "app.kubernetes.io/name: oka",
           "app.kubernetes.io/name: oak", "selectors", "selects no pod", "note"),
    Defect("a job that Prometheus asks at another port", MONITOR, "port: job-metrics",
           "port: dashboard", "ports", "asks port 8265", "note"),
    Defect("a typo in Prometheus' namespace", "components/monitoring/network-policy.yaml", "name: monitoring",
           "name: montioring", "policies", "Prometheus", "note"),
    # Nodes
    Defect("nodes too small for their pods", EKS, "c7i.2xlarge",
           "c7i.large", "nodes", "asks for 7 CPUs", "error"),
    Defect("2 worker nodes instead of 4", EKS, "desiredCapacity: 4",
           "desiredCapacity: 2", "nodes", "2 nodes", "error"),
    Defect("a label that no node has", EKS, "oka.dev/node: worker",
           "oka.dev/node: wroker", "nodes", "0 nodes", "error"),
    Defect("more disk than a node has", SIZES, "ephemeral-storage: 10Gi",
           "ephemeral-storage: 60Gi", "nodes", "60Gi of disk", "error"),
    Defect("a dev pod of 40 Gi", "overlays/dev/sizes.yaml", "memory: 4Gi",
           "memory: 40Gi", "nodes", "40Gi of memory", "error"),
    Defect("a dev node without memory", "overlays/dev/cluster/kustomization.yaml", "memory=12Gi",
           "memory=12GB", "nodes", "12GB", "error"),
    Defect("workers in another zone than the head's disk", EKS, "  maxSize: 12\n  availabilityZones: [eu-central-1a]",
           "  maxSize: 12\n  availabilityZones: [eu-central-1b]", "eks", "nodes are in several zones: traffic between ", "note"),
    Defect("zones of another region", EKS, "region: eu-central-1",
           "region: eu-west-1", "schema", "zones are of another region", "error"),
    Defect("enableNetworkPolicy: false", EKS, "\"enableNetworkPolicy\": \"true\"",
           "\"enableNetworkPolicy\": \"false\"", "eks", "enableNetworkPolicy", "note"),
    Defect("a service account named otherwise in eksctl's file", EKS, "      name: oka\n",
           "      name: oka-pods\n", "role", "makes no role for the service account oka/ok", "note"),
    Defect("roles without OIDC", EKS, "withOIDC: true",
           "withOIDC: false", "schema", "serviceAccounts need iam.withOIDC, or pods h", "error"),
    Defect("an instance type with a typo", EKS, "c7i.2xlarge",
           "c7i.2xlrage", "eks", "an instanceType is not set, or not such as c", "note"),
    Defect("a version of EKS that is not checked", EKS, "version: \"1.36\"",
           "version: \"1.34\"", "eks", "metadata.version is not 1.36, that of k8s/sc", "note"),
    Defect("a role for two buckets", EKS, "oka-models-example/models",
           "somebody-elses/models", "role", "below models/ of", "note"),
    # Serving
    Defect("a field of a Deployment with a typo", SERVING, "terminationGracePeriodSeconds: 50",
           "terminationGracePeriod: 50", "schema", "terminationGracePeriod", "error"),
    Defect("a Service that selects nothing", SERVING, "spec:\n  selector:\n    app.kubernetes.io/",
           "spec:\n  selector:\n    app.k8s.io/", "selectors", "selects no pod", "note"),
    Defect("a Service of a port that nobody opens", SERVING, "targetPort: http",
           "targetPort: https", "services", "targetPort", "error"),
    Defect("a probe of another path", SERVING, "path: /-/readyz",
           "path: /ready", "schema", "another path", "error"),
    Defect("a drain that is cut short", SERVING, "--drain-seconds=40",
           "--drain-seconds=45", "serving", "of 50 s", "note"),
    Defect("clients on another port", SERVING, "port: 8000}\n  egress",
           "port: 8080}\n  egress", "policies", "8000", "note"),
    # What no check without a cluster can tell
    Defect("a Secret that nobody made", CLUSTER, "oka-ray-token",
           "oka-token", "references", "Secret oka-token", "note"),
    Defect("a registry that does not have the image", "base/kustomization.yaml", "newTag: 0.1.0",
           "newTag: 0.1.9", "", "", ""),
)
# fmt: on
