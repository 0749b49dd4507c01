"""Mistakes that people make in manifests, and changes that they rightly make, as edits of overlays.

An edit is a path and its new value: `KIND[/NAME] KEY KEY …`, `eks KEY …` for eksctl's file, or
`settings/JOB KEY` for the file of a job's settings. None takes away what is there; a path that ends
in `+` appends. A document that is added is its YAML.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import yaml

from k8s.manifests import FOLDER, Document, dump, load, name, of_kind
from k8s.subject import Subject

ERROR, NOTE, PASSES = "error", "note", "passes"
NOTHING = "nothing"


@dataclass(frozen=True)
class Tried:
    """What was tried: edits of an overlay, and what the check says of them."""

    what: str
    overlay: str
    edits: dict[str, Any]
    says: str
    by: str = ""
    message: str = ""
    added: str = ""

    def subject(self, built: list[Document]) -> Subject:
        """The overlay with the edits."""
        documents = copy.deepcopy(built)
        (eks,) = load((FOLDER / "eks" / "cluster.yaml").read_text(encoding="utf-8"))
        for path, value in self.edits.items():
            target, *keys = path.split(" ")
            if target == "eks":
                edit(eks, keys, value)
            elif target.startswith("settings/"):
                settings(documents, target.removeprefix("settings/"), keys[0], value)
            else:
                found = [each for each in documents if target in (each["kind"], name(each))]
                assert found, path
                for document in found:
                    edit(document, keys, copy.deepcopy(value))
        subject = Subject(self.overlay, dump([*documents, *load(self.added)]))
        subject.__dict__["eks_text"] = dump([eks])
        return subject


def edit(part: Any, keys: list[str], value: Any) -> None:
    """Set what is at the keys."""
    *above, last = keys
    for key in above:
        part = part[int(key)] if isinstance(part, list) else part.setdefault(key, {})
    if isinstance(part, list) and last != "+":
        part[int(last)] = value
    elif last == "+":
        part.append(value)
    elif value is None:
        del part[last]
    else:
        part[last] = value


def settings(documents: list[Document], job: str, key: str, value: Any) -> None:
    """Set a setting of a job."""
    for each in of_kind(documents, "ConfigMap"):
        if f"{job}.yaml" in each["data"]:
            said = yaml.safe_load(each["data"][f"{job}.yaml"])
            edit(said, [key], value)
            each["data"][f"{job}.yaml"] = yaml.safe_dump(said)


SERVING = "Deployment spec template spec"
CONTAINER = f"{SERVING} containers 0"
JOB = "RayJob/oka-word-count spec"
CLUSTER = f"{JOB} rayClusterSpec"
HEAD = f"{CLUSTER} headGroupSpec template spec"
WORKERS = f"{CLUSTER} workerGroupSpecs 0 template spec"
ROLE = "eks iam serviceAccounts 0 attachPolicy Statement"
ARGUMENTS = [
    "oka", "run", "pipelines/online_inference.py", "folder=/home/oka/digits", "host=0.0.0.0",
    "token_file=/etc/oka/token", "--drain-seconds=40", "--progress=none",
]  # fmt: skip
S3 = "s3://oka-models-example/checkpoints/word-count/1"
GOES_ON = {"settings/word-count checkpoints": S3, "settings/word-count resume": "latest"}

PODS = (HEAD, WORKERS, f"{CLUSTER} workerGroupSpecs 1 template spec")
VOLUME = {
    **{
        f"{pod} volumes +": {"name": "state", "persistentVolumeClaim": {"claimName": "state"}}
        for pod in PODS
    },
    **{
        f"{pod} containers 0 volumeMounts +": {"name": "state", "mountPath": "/state"}
        for pod in PODS
    },
}
CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: state, namespace: oka}}
spec: {{accessModes: [{}], resources: {{requests: {{storage: 10Gi}}}}}}
"""
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def arguments(**changed: str | None) -> dict[str, Any]:
    """The arguments of serving, some of them changed or left out."""
    said = []
    for each in ARGUMENTS:
        key = each.partition("=")[0].strip("-").replace("-", "_")
        said += (
            [each]
            if key not in changed
            else [each.partition("=")[0] + f"={changed[key]}"]
            if changed[key]
            else []
        )
    return {f"{CONTAINER} args": said}


# fmt: off
MISTAKES = (
    # Serving
    Tried("a probe at a port that is not there", "serving", {f"{CONTAINER} livenessProbe httpGet port": "htttp"}, ERROR, "schema", "ports do not name"),
    Tried("args without oka", "serving", {f"{CONTAINER} args": ARGUMENTS[1:]}, ERROR, "serving", "expected oka"),
    Tried("host=127.0.0.1 in a pod", "serving", arguments(host="127.0.0.1"), ERROR, "serving", "nobody outside"),
    Tried("a token file with a typo", "serving", arguments(token_file="/etc/oka/tokne"), ERROR, "serving", "no volume has"),
    Tried("a token file elsewhere", "serving", arguments(token_file="/etc/oak/token"), ERROR, "serving", "no volume has"),
    Tried("no token at all", "serving", arguments(token_file=None), ERROR, "serving", "without a token"),
    Tried("two containers on one port", "serving", {f"{SERVING} containers +": {"name": "proxy", "image": "envoy:1", "ports": [{"containerPort": 8000}]}}, ERROR, "schema", "one port"),
    Tried("memory: 1Mi", "serving", {f"{CONTAINER} resources limits memory": "1Mi", f"{CONTAINER} resources requests memory": "1Mi"}, ERROR, "schema", "does not start"),
    Tried("an Ingress without TLS", "serving", {}, NOTE, "closed-services", "no tls", """
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: oka, namespace: oka}
spec:
  rules: [{host: a.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: oka-serving, port: {name: http}}}}]}}]
"""),
    Tried("rights of an administrator", "serving", {}, NOTE, "rights", "cluster-admin", """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: oka}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: oka-serving, namespace: oka}]
"""),
    Tried("a Secret's key under another name", "serving", {f"{SERVING} volumes 3 secret items": [{"key": "auth_token", "path": "auth_token"}]}, ERROR, "serving", "no volume has"),
    Tried("a Secret's key that is not there", "serving", {f"{SERVING} volumes 3 secret items": [{"key": "auth_token", "path": "token"}]}, NOTE, "references", "'auth_token'"),
    Tried("a Service with externalIPs", "serving", {"Service spec externalIPs": ["203.0.113.7"]}, NOTE, "closed-services", "externalIPs"),
    Tried("containerPort 80801", "serving", {f"{CONTAINER} ports 0 containerPort": 80801}, ERROR, "schema", "65535"),
    Tried("a livenessProbe that succeeds twice", "serving", {f"{CONTAINER} livenessProbe successThreshold": 2}, ERROR, "schema", "must be 1"),
    Tried("no readinessProbe", "serving", {f"{CONTAINER} readinessProbe": None}, NOTE, "serving", "no readinessProbe"),
    Tried("the tag latest", "serving", {f"{CONTAINER} image": "oka:latest"}, NOTE, "image", "latest"),
    Tried("an Ingress to a port that is not there", "serving", {}, ERROR, "selectors", "htttp", """
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: oka, namespace: oka}
spec:
  tls: [{hosts: [a.example.com], secretName: tls}]
  rules: [{host: a.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: oka-serving, port: {name: htttp}}}}]}}]
"""),
    Tried("an Ingress to no Service", "serving", {}, NOTE, "references", "Service oka-servng", """
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: oka, namespace: oka}
spec:
  tls: [{hosts: [a.example.com], secretName: tls}]
  rules: [{host: a.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: oka-servng, port: {name: http}}}}]}}]
"""),
    Tried("preStop that takes the time to drain", "serving", {f"{CONTAINER} lifecycle preStop": {"exec": {"command": ["sleep", "30"]}}}, NOTE, "serving", "of 50 s"),
    Tried("labels with 70 characters", "serving", {"PodDisruptionBudget spec selector matchLabels": {"app": "a" * 70}}, ERROR, "schema", "63"),
    Tried("a readinessProbe over HTTPS to HTTP", "serving", {f"{CONTAINER} readinessProbe httpGet scheme": "HTTPS"}, NOTE, "serving", "HTTPS"),
    Tried("a readinessProbe at another number", "serving", {f"{CONTAINER} readinessProbe httpGet port": 8080}, ERROR, "serving", "asked at"),
    Tried("port=8001 and nothing else", "serving", {f"{CONTAINER} args +": "port=8001"}, ERROR, "serving", "listens on port 8001"),
    Tried("an argument with a typo", "serving", {f"{CONTAINER} args +": "prot=8001"}, ERROR, "serving", "prot"),
    Tried("an argument of another type", "serving", {f"{CONTAINER} args +": "tasks=two"}, ERROR, "serving", "tasks is 'two'"),
    Tried("an option with a typo", "serving", {f"{CONTAINER} args +": "--drain-second=4"}, ERROR, "serving", "--drain-second"),
    Tried("a command with a typo", "serving", {f"{CONTAINER} args 1": "rnu"}, ERROR, "serving", "rnu"),
    Tried("oka with a typo", "serving", {f"{CONTAINER} args 0": "oak"}, NOTE, "serving", "'oak'"),
    Tried("a pipeline with a typo", "serving", {f"{CONTAINER} args 2": "pipelines/online_inferense.py"}, NOTE, "serving", "does not exist"),
    Tried("a start that has 3 seconds", "serving", {f"{CONTAINER} startupProbe failureThreshold": 3}, NOTE, "serving", "30 s to start"),
    Tried("no drain", "serving", {f"{CONTAINER} args 6": "--drain-seconds=0"}, NOTE, "serving", "drains for 0 s"),
    Tried("no preStop", "serving", {f"{CONTAINER} lifecycle": None}, NOTE, "serving", "preStop"),
    Tried("a folder that nobody may write to", "serving", arguments(folder="/models/digits"), NOTE, "serving", "no volume has"),
    Tried("a mount of another folder", "serving", {f"{CONTAINER} volumeMounts 3 mountPath": "/etc/oak"}, ERROR, "serving", "no volume has"),
    Tried("a mount of no volume", "serving", {f"{CONTAINER} volumeMounts 3 name": "tokens"}, ERROR, "schema", "no volume"),
    Tried("a HOME that cannot be written", "serving", {f"{CONTAINER} env 0 value": "/home/oak"}, NOTE, "image", "HOME"),
    Tried("a Secret with a typo", "serving", {f"{SERVING} volumes 3 secret secretName": "oka-serving-tokne"}, NOTE, "references", "Secret oka-serving-tokne"),
    Tried("a Service in another namespace", "serving", {"Service metadata namespace": "web"}, ERROR, "services", "elsewhere"),
    Tried("a Service of another port", "serving", {"Service spec ports 0 targetPort": 8080}, NOTE, "services", "targetPort"),
    Tried("a selector that is not the template's", "serving", {"Deployment spec selector matchLabels oka.dev/role": "served"}, ERROR, "schema", "does not match"),
    Tried("no pod more and none less while updating", "serving", {"Deployment spec strategy rollingUpdate maxSurge": 0}, ERROR, "schema", "cannot both be 0"),
    Tried("a budget that lets nobody go", "serving", {"PodDisruptionBudget spec minAvailable": 2}, NOTE, "budgets", "keeps all 2"),
    Tried("a budget with two numbers", "serving", {"PodDisruptionBudget spec maxUnavailable": 1}, ERROR, "schema", "minAvailable or maxUnavailable"),
    Tried("an HPA of no Deployment", "serving", {}, NOTE, "references", "Deployment oka-servng", """
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: oka, namespace: oka}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: oka-servng}, minReplicas: 2, maxReplicas: 4}
"""),
    Tried("an HPA with more at least than at most", "serving", {}, ERROR, "schema", "above maxReplicas", """
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: oka, namespace: oka}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: oka-serving}, minReplicas: 8, maxReplicas: 4}
"""),
    Tried("an HPA by a metric with a typo", "serving-public", {"HorizontalPodAutoscaler spec metrics 1 pods metric name": "oka_request_in_flight"}, NOTE, "metrics", "oka_requests_in_flight"),
    Tried("an HPA by requests that nobody scrapes", "serving-public", {"PodMonitor spec selector matchLabels oka.dev/role": "serve"}, NOTE, "metrics", "no PodMonitor"),
    Tried("a PodMonitor of /metrics", "serving-public", {"PodMonitor spec podMetricsEndpoints 0 path": None}, NOTE, "metrics", "http /metrics"),
    Tried("a PodMonitor of a port that pods do not name", "serving-public", {"PodMonitor spec podMetricsEndpoints 0 port": "metrics"}, NOTE, "selectors", "'metrics'"),
    Tried("a PodMonitor over HTTPS to HTTP", "serving-public", {"PodMonitor spec podMetricsEndpoints 0 scheme": "https"}, NOTE, "metrics", "https"),
    Tried("Prometheus that may not ask pods that serve", "serving-public", {"NetworkPolicy/oka-serving-metrics spec ingress 0 ports 0 port": 8080}, NOTE, "policies", "Prometheus to Deployment/oka-serving"),
    # Jobs and what they go on from
    Tried("another bucket than the role's", "eks", {**GOES_ON, "settings/word-count checkpoints": "s3://oka-chekpoints/checkpoints/1"}, ERROR, "role", "the role refuses"),
    Tried("checkpoints that nobody resumes", "eks", {"settings/word-count checkpoints": S3}, ERROR, "checkpoints", "does not resume"),
    Tried("checkpoints in a folder of the pod", "eks", {**GOES_ON, "settings/word-count checkpoints": "/home/oka/ck"}, ERROR, "checkpoints", "take with them"),
    Tried("YOUR-BUCKET left as it was", "eks", {**GOES_ON, "settings/word-count checkpoints": "s3://YOUR-BUCKET/checkpoints/1"}, ERROR, "checkpoints", "no name of a bucket"),
    Tried("checkpoints beside the prefix of the role", "eks", {**GOES_ON, "settings/word-count checkpoints": "s3://oka-models-example/checkpoint/1"}, ERROR, "role", "s3:PutObject"),
    Tried("checkpoints at s3a://", "eks", {**GOES_ON, "settings/word-count checkpoints": "s3a://oka-models-example/checkpoints/1"}, ERROR, "checkpoints", "take with them"),
    Tried("a role that lists another prefix", "eks", {f"{ROLE} 0 Condition StringLike s3:prefix 1": "checkpoint/*"}, NOTE, "role", "s3:ListBucket"),
    Tried("a role that removes nothing", "eks", {f"{ROLE} 2 Action": ["s3:GetObject", "s3:PutObject"]}, NOTE, "role", "s3:DeleteObject"),
    Tried("an action with a typo", "eks", {f"{ROLE} 2 Action 1": "s3:PutObjects"}, NOTE, "role", "no s3:PutObject"),
    Tried("an ARN with a typo", "eks", {f"{ROLE} 2 Resource": "arn:aws:s3::oka-models-example/checkpoints/*"}, NOTE, "role", "arn:aws:s3::oka"),
    Tried("objects that are listed in no bucket", "eks", {f"{ROLE} 0 Resource": "arn:aws:s3:::oka-models-example/*"}, NOTE, "role", "s3:ListBucket"),
    Tried("a role that denies", "eks", {f"{ROLE} 2 Effect": "Deny"}, NOTE, "role", "s3:DeleteObject"),
    Tried("a role for all of S3", "eks", {f"{ROLE} 1 Resource": "*"}, NOTE, "role", "all of S3"),
    Tried("an account in another namespace", "eks", {"eks iam serviceAccounts 0 metadata namespace": "default"}, NOTE, "role", "oka/oka"),
    Tried("one prefix for two jobs", "eks", {**GOES_ON, "settings/model-broadcast checkpoints": S3, "settings/model-broadcast resume": "latest"}, ERROR, "checkpoints", "as those of"),
    Tried("an endless job with a deadline", "eks", {**GOES_ON, f"{JOB} entrypoint": "oka run pipelines/word_count.py:random_word_count seconds=86400 --config /etc/oka/word-count.yaml"}, NOTE, "checkpoints", "activeDeadlineSeconds, 1800"),
    Tried("AWS_ENDPOINT_URL in the submitter alone", "eks", {f"{JOB} submitterPodTemplate spec containers 0 env +": {"name": "AWS_ENDPOINT_URL", "value": "https://s3.example.com"}}, NOTE, "variables", "variable"),
    Tried("AWS_ENDPOINT_URL in the head alone", "eks", {f"{HEAD} containers 0 env +": {"name": "AWS_ENDPOINT_URL", "value": "https://s3.example.com"}}, NOTE, "variables", "variable"),
    Tried("fewer ports than tasks", "eks", {"settings/word-count port_range": "20000-20003"}, ERROR, "tasks", "port_range has 4 ports"),
    Tried("a driver that leaves the head", "eks", {f"{JOB} entrypointNumCpus": 1}, ERROR, "schema", "runs elsewhere"),
    Tried("an entrypoint without oka", "eks", {f"{JOB} entrypoint": "run pipelines/word_count.py --config /etc/oka/word-count.yaml"}, ERROR, "tasks", "entrypoint"),
    Tried("a runtime_env that does not parse", "eks", {f"{JOB} runtimeEnvYAML": "env_vars: {a: b"}, ERROR, "tasks", "runtimeEnvYAML"),
    Tried("a ConfigMap of 2 MiB", "eks", {"ConfigMap data more": "a" * 2**21}, ERROR, "schema", "1 MiB"),
    Tried("another Oka in the workers", "eks", {f"{WORKERS} containers 0 image": "oka:0.2.0-ray2.60.0"}, NOTE, "image", "different images"),
    Tried("another Ray in the workers", "eks", {f"{WORKERS} containers 0 image": "oka:0.1.0-ray2.59.0"}, ERROR, "schema", "different Rays"),
    Tried("AppArmor: Unconfined", "eks", {f"{WORKERS} containers 0 securityContext appArmorProfile": {"type": "Unconfined"}}, ERROR, "restricted", "Unconfined"),
    Tried("root", "eks", {f"{WORKERS} securityContext runAsUser": 0}, ERROR, "restricted", "runAsUser"),
    Tried("a topologyKey with a typo", "eks", {f"{WORKERS} topologySpreadConstraints 0 topologyKey": "topology.kubernetes.io/zoen", f"{WORKERS} topologySpreadConstraints 0 whenUnsatisfiable": "DoNotSchedule"}, NOTE, "nodes", "topologyKey"),
    Tried("whenUnsatisfiable with a typo", "eks", {f"{WORKERS} topologySpreadConstraints 0 whenUnsatisfiable": "DoNotSchedul"}, ERROR, "schema", "DoNotSchedul"),
    Tried("an effect with a typo", "eks", {f"{HEAD} tolerations": [{"key": "oka.dev/node", "operator": "Exists", "effect": "NoSchedul"}]}, ERROR, "schema", "NoSchedul"),
    Tried("imagePullPolicy with a typo", "eks", {f"{WORKERS} containers 0 imagePullPolicy": "IfNotPresnt"}, ERROR, "schema", "IfNotPresnt"),
    Tried("an image that is no name", "eks", {f"{WORKERS} containers 0 image": "Registry/Oka:1"}, ERROR, "schema", "no name of an image"),
    Tried("dashboard-host: 127.0.0.1", "eks", {f"{CLUSTER} headGroupSpec rayStartParams dashboard-host": "127.0.0.1"}, ERROR, "schema", "dashboard-host"),
    Tried("worker ports the wrong way round", "eks", {f"{CLUSTER} headGroupSpec rayStartParams min-worker-port": "20001"}, ERROR, "schema", "is above"),
    Tried("a port of Ray's that is no number", "eks", {f"{CLUSTER} headGroupSpec rayStartParams node-manager-port": "67O1"}, ERROR, "schema", "a number"),
    Tried("no anti-affinity", "eks", {f"{WORKERS} affinity": None}, NOTE, "ray-options", "anti-affinity"),
    # Kubernetes around them
    Tried("peers that a dash has split", "eks", {"NetworkPolicy/oka-submitter spec egress 1 to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}, {"podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}]}, NOTE, "policies", "nobody of whom"),
    Tried("labels of pods that policies do not know", "eks", {f"{CLUSTER} headGroupSpec template metadata labels app.kubernetes.io/name": "okra"}, NOTE, "ray-options", "anti-affinity"),
    Tried("a direction with a typo", "eks", {"NetworkPolicy/oka-submitter spec policyTypes": ["Ingress", "Egres"]}, ERROR, "schema", "Egres"),
    Tried("an endPort below the port", "eks", {"NetworkPolicy/oka-ray spec ingress 0 ports 2 endPort": 6700}, ERROR, "schema", "endPort"),
    Tried("a policy in another namespace", "eks", {"NetworkPolicy/oka-aws metadata namespace": "default"}, NOTE, "policies", "AWS"),
    Tried("PodDisruptionBudget of policy/v1beta1", "eks", {"PodDisruptionBudget apiVersion": "policy/v1beta1"}, ERROR, "schema", "policy/v1beta1"),
    Tried("a NodePort for the dashboard", "eks", {f"{CLUSTER} headGroupSpec serviceType": "NodePort"}, NOTE, "closed-services", "dashboard"),
    Tried("a quota that the job does not fit", "eks", {}, ERROR, "quotas", "requests.cpu", """
apiVersion: v1
kind: ResourceQuota
metadata: {name: oka, namespace: oka}
spec: {hard: {requests.cpu: "8", pods: "20"}}
"""),
    Tried("a taint that nobody tolerates", "eks", {"eks managedNodeGroups 1 taints": [{"key": "oka", "value": "a", "effect": "NoSchedule"}]}, ERROR, "nodes", "0 nodes"),
    Tried("arm64 nodes", "eks", {"eks managedNodeGroups 1 instanceType": "c7g.2xlarge"}, NOTE, "eks", "arm64"),
    Tried("maxSize below desiredCapacity", "eks", {"eks managedNodeGroups 1 maxSize": 2}, ERROR, "schema", "maxSize"),
    Tried("a priority class with a typo", "eks", {f"{WORKERS} priorityClassName": "hihg"}, NOTE, "references", "PriorityClass hihg"),
    Tried("an unknown kind, and a drain that is cut short", "serving", {f"{SERVING} terminationGracePeriodSeconds": 40}, NOTE, "serving", "of 40 s", """
apiVersion: external-secrets.io/v1
kind: ExternalSecret
metadata: {name: a, namespace: oka}
spec: {}
"""),
    # Neighbours of these
    Tried("a job that never ends if it hangs", "eks", {f"{JOB} activeDeadlineSeconds": None}, NOTE, "checkpoints", "if it hangs"),
    Tried("a pod above the limits of its namespace", "eks", {}, ERROR, "quotas", "LimitRange", "{apiVersion: v1, kind: LimitRange, metadata: {name: oka, namespace: oka}, spec: {limits: [{type: Container, max: {cpu: '4'}}]}}"),
    Tried("an HPA in another namespace", "serving", {}, ERROR, "references", "of web", "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: oka, namespace: web}, spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: oka-serving}, maxReplicas: 4}}"),
    Tried("a file beside the token that is no token", "serving", arguments(folder="/etc/oka/digits"), NOTE, "serving", "no volume has"),
    Tried("memory: 512m", "serving", {f"{CONTAINER} resources limits memory": "512m", f"{CONTAINER} resources requests memory": "512m"}, ERROR, "schema", "does not start"),
    Tried("1000 CPUs for 1000m", "serving", {f"{CONTAINER} resources limits cpu": "1000", f"{CONTAINER} resources requests cpu": "1000"}, NOTE, "nodes", "192 CPUs"),
    Tried("a Secret of one's own with another key", "serving", {}, ERROR, "serving", "no volume has", "{apiVersion: v1, kind: Secret, metadata: {name: oka-serving-token, namespace: oka}, stringData: {tokens: a}}"),
    Tried("a token file of the working directory", "serving", arguments(token_file="token"), ERROR, "serving", "no volume has"),
    Tried("a livenessProbe that gives up at once", "serving", {f"{CONTAINER} livenessProbe periodSeconds": 1, f"{CONTAINER} livenessProbe failureThreshold": 1}, NOTE, "serving", "gives up"),
    Tried("a HOME that is mounted readOnly", "serving", {f"{CONTAINER} volumeMounts 1 readOnly": True}, NOTE, "image", "readOnly"),
    Tried("a budget of no pod that may go", "serving", {"PodDisruptionBudget spec minAvailable": None, "PodDisruptionBudget spec maxUnavailable": 0}, NOTE, "budgets", "no pod may go"),
    Tried("a quota that serving does not fit", "serving", {}, ERROR, "quotas", "limits.memory", "{apiVersion: v1, kind: ResourceQuota, metadata: {name: oka, namespace: oka}, spec: {hard: {limits.memory: 1Gi}}}"),
    Tried("a port of a policy in quotes", "serving", {"NetworkPolicy spec ingress 0 ports 0 port": "8000"}, ERROR, "schema", "without quotes"),
    Tried("a CIDR with 300", "eks", {"NetworkPolicy/oka-aws spec egress 0 to 0 ipBlock cidr": "192.168.300.0/16"}, ERROR, "schema", "such a network"),
    Tried("an exception that is elsewhere", "eks", {"NetworkPolicy/oka-aws spec egress 0 to 0 ipBlock except": ["10.0.0.0/8"]}, ERROR, "schema", "within the cidr"),
    Tried("rules of a direction that is not named", "eks", {"NetworkPolicy/oka-ray spec policyTypes": ["Egress"]}, NOTE, "policies", "they do nothing"),
    Tried("a prefix with * that is compared as it is", "eks", {f"{ROLE} 0 Condition": {"StringEquals": {"s3:prefix": ["models/*", "checkpoints/*"]}}}, NOTE, "role", "s3:ListBucket"),
    Tried("checkpoints on a volume of one node", "eks", {**VOLUME, "settings/word-count checkpoints": "/state/a", "settings/word-count resume": "latest"}, NOTE, "checkpoints", "ReadWriteOnce", CLAIM.format("ReadWriteOnce")),
    Tried("checkpoints on a volume that is readOnly", "eks", {**VOLUME, f"{WORKERS} containers 0 volumeMounts 3 readOnly": True, "settings/word-count checkpoints": "/state/a", "settings/word-count resume": "latest"}, ERROR, "checkpoints", "take with them", CLAIM.format("ReadWriteMany")),
    Tried("arm64 among instanceTypes", "eks", {"eks managedNodeGroups 1 instanceType": None, "eks managedNodeGroups 1 instanceTypes": ["c7i.2xlarge", "c7g.2xlarge"]}, NOTE, "eks", "arm64"),
    Tried("two node groups of one name", "eks", {"eks managedNodeGroups 1 name": "heads"}, ERROR, "schema", "one name"),
    Tried("heads on spot nodes", "eks", {"eks managedNodeGroups 0 spot": True}, NOTE, "eks", "spot"),
    Tried("a nodeSelector for arm64", "eks", {f"{WORKERS} nodeSelector kubernetes.io/arch": "arm64"}, NOTE, "nodes", "linux/amd64"),
    Tried("a nodeSelector for a zone without nodes", "eks", {f"{WORKERS} nodeSelector topology.kubernetes.io/zone": "eu-central-1b"}, ERROR, "nodes", "0 nodes"),
    Tried("a nodeAffinity that no node has", "eks", {f"{WORKERS} affinity nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "oka.dev/nod", "operator": "In", "values": ["worker"]}]}]}}}, NOTE, "nodes", "0 nodes"),
    Tried("a nodeAffinity without values", "eks", {f"{WORKERS} affinity nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "oka.dev/node", "operator": "In"}]}]}}}, ERROR, "schema", "have no values"),
    Tried("a head that stays on a lost node", "eks", {f"{HEAD} tolerations": None}, NOTE, "drain", "unreachable"),
    Tried("another Oka in the submitter", "eks", {f"{JOB} submitterPodTemplate spec containers 0 image": "oka:0.2.0-ray2.60.0"}, NOTE, "image", "submitter"),
    Tried("keys of S3 in the submitter alone", "eks", {f"{JOB} submitterPodTemplate spec containers 0 envFrom": [{"secretRef": {"name": "s3"}}]}, NOTE, "variables", "envFrom"),
    Tried("a sysctl that is not safe", "eks", {f"{WORKERS} securityContext sysctls": [{"name": "net.core.somaxconn", "value": "1024"}]}, ERROR, "restricted", "sysctl"),
    Tried("a type of SELinux", "eks", {f"{WORKERS} securityContext seLinuxOptions": {"type": "spc_t"}}, ERROR, "restricted", "seLinuxOptions"),
    Tried("a version of pod-security without v", "eks", {"Namespace metadata labels pod-security.kubernetes.io/enforce-version": "1.36"}, ERROR, "schema", "v1.36"),
    Tried("a deadline of a minute", "eks", {f"{JOB} activeDeadlineSeconds": 60}, NOTE, "job-ends", "less than 300"),
    Tried("an Ingress of KubeRay for the dashboard", "eks", {f"{CLUSTER} headGroupSpec enableIngress": True}, NOTE, "closed-services", "enableIngress"),
    Tried("a runtime_env with a typo", "eks", {f"{JOB} runtimeEnvYAML": "env_var: {A: b}"}, NOTE, "tasks", "env_var"),
    Tried("a runtime_env with a number", "eks", {f"{JOB} runtimeEnvYAML": "env_vars: {A: 1}"}, ERROR, "tasks", "env_vars"),
)  # fmt: skip

CHANGES = (
    Tried(
        "another namespace",
        "eks",
        {
            **{
                f"{kind} metadata namespace": "streams"
                for kind in (
                    "RayJob",
                    "RayCluster",
                    "ConfigMap",
                    "NetworkPolicy",
                    "PodDisruptionBudget",
                    "ServiceAccount",
                )
            },
            "Namespace metadata name": "streams",
            "eks iam serviceAccounts 0 metadata namespace": "streams",
        },
        NOTHING,
    ),
    Tried(
        "a bucket for models and one for checkpoints",
        "eks",
        {
            **GOES_ON,
            "settings/word-count checkpoints": "s3://oka-state/checkpoints/1",
            f"{ROLE} 2 Resource": "arn:aws:s3:::oka-state/checkpoints/*",
            f"{ROLE} +": {
                "Effect": "Allow",
                "Action": ["s3:ListBucket"],
                "Resource": "arn:aws:s3:::oka-state",
            },
        },
        PASSES,
    ),
    Tried(
        "a private registry",
        "eks",
        {
            f"{WORKERS} containers 0 image": "registry.example.com:5000/team/oka:0.1.0-ray2.60.0",
            f"{HEAD} containers 0 image": "registry.example.com:5000/team/oka:0.1.0-ray2.60.0",
            f"{WORKERS} imagePullSecrets": [{"name": "pull"}],
        },
        PASSES,
    ),
    Tried("the tag of a commit", "serving", {f"{CONTAINER} image": "oka:1a2b3c4"}, PASSES),
    Tried(
        "an image by its digest",
        "serving",
        {f"{CONTAINER} image": "ghcr.io/team/oka@sha256:" + "0a" * 32},
        PASSES,
    ),
    Tried(
        "GPUs",
        "eks",
        {
            f"{WORKERS} containers 0 resources limits nvidia.com/gpu": "1",
            f"{WORKERS} tolerations": [
                {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
            ],
            "eks managedNodeGroups 1 instanceType": "g6.2xlarge",
            f"{CLUSTER} workerGroupSpecs 0 resources GPU": "1",
        },
        PASSES,
    ),
    Tried(
        "a family with a dash",
        "eks",
        {"eks managedNodeGroups 0 instanceType": "m7i-flex.2xlarge"},
        NOTHING,
    ),
    Tried(
        "a variable from a Secret of one's own",
        "serving",
        {
            f"{CONTAINER} env +": {
                "name": "KEY",
                "valueFrom": {"secretKeyRef": {"name": "mine", "key": "key"}},
            }
        },
        PASSES,
    ),
    Tried(
        "a submitter with an account of its own",
        "eks",
        {f"{JOB} submitterPodTemplate spec serviceAccountName": "submitter"},
        PASSES,
    ),
    Tried(
        "an HPA of the pods that serve",
        "serving",
        {"Deployment spec replicas": None},
        PASSES,
        added="""
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: oka, namespace: oka}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: oka-serving}
  minReplicas: 2
  maxReplicas: 6
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}]
""",
    ),
    Tried(
        "a file beside the token",
        "serving",
        {f"{CONTAINER} args 3": "folder=/etc/oka/tls.crt"},
        PASSES,
    ),
    Tried(
        "an HPA by a metric of an Ingress",
        "serving-public",
        {
            "HorizontalPodAutoscaler spec metrics 1 pods metric name": "nginx_requests_per_second",
            "PodMonitor spec podMetricsEndpoints +": {"port": "http", "path": "/-/metrics"},
        },
        NOTHING,
    ),
    Tried(
        "Karpenter",
        "eks",
        {
            f"{WORKERS} nodeSelector": {"karpenter.sh/nodepool": "oka"},
            f"{HEAD} nodeSelector": {"karpenter.sh/nodepool": "oka"},
        },
        PASSES,
        added="""
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: oka}
spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: oka}}}}
""",
    ),
    Tried("amd64 besides", "eks", {f"{WORKERS} nodeSelector kubernetes.io/arch": "amd64"}, NOTHING),
    Tried(
        "a budget of one less, with checkpoints",
        "eks",
        {**GOES_ON, "PodDisruptionBudget/oka-word-count spec minAvailable": 4},
        PASSES,
    ),
    Tried(
        "spot nodes",
        "eks",
        {
            "eks managedNodeGroups 1 instanceType": None,
            "eks managedNodeGroups 1 instanceTypes": ["c7i.2xlarge", "c6i.2xlarge"],
            "eks managedNodeGroups 1 spot": True,
        },
        NOTHING,
    ),
    Tried(
        "S3 by its public addresses",
        "eks",
        {"NetworkPolicy/oka-aws spec egress 0 to 0 ipBlock cidr": "0.0.0.0/0"},
        PASSES,
    ),
    Tried(
        "a Redis beside",
        "serving",
        {},
        NOTHING,
        added="""
apiVersion: apps/v1
kind: Deployment
metadata: {name: redis, namespace: oka}
spec:
  selector: {matchLabels: {app: redis}}
  template:
    metadata: {labels: {app: redis}}
    spec: {containers: [{name: redis, image: "redis:7", ports: [{containerPort: 6379}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: redis, namespace: oka}
spec: {selector: {app: redis}, ports: [{port: 6379}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: redis, namespace: oka}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: redis}}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: redis, namespace: oka}
spec:
  podSelector: {matchLabels: {app: redis}}
  policyTypes: [Ingress]
  ingress: [{from: [{podSelector: {matchLabels: {app.kubernetes.io/name: oka}}}], ports: [{port: 6379}]}]
""",
    ),
    Tried("an older Kubernetes on EKS", "eks", {"eks metadata version": "1.35"}, PASSES),
    Tried(
        "preStop as a command",
        "serving",
        {f"{CONTAINER} lifecycle preStop": {"exec": {"command": ["sleep", "5"]}}},
        NOTHING,
    ),
    Tried(
        "an ingress controller that may ask",
        "serving",
        {
            "NetworkPolicy spec ingress 0 from +": {
                "namespaceSelector": {
                    "matchLabels": {"kubernetes.io/metadata.name": "ingress-nginx"}
                },
                "podSelector": {"matchLabels": {"app.kubernetes.io/name": "ingress-nginx"}},
            }
        },
        PASSES,
    ),
    Tried(
        "a pipeline of one's own",
        "eks",
        {f"{JOB} entrypoint": "oka run pipelines/mine.py --config /etc/oka/word-count.yaml"},
        PASSES,
    ),
    Tried(
        "a pipeline of one's own that serves",
        "serving",
        {
            f"{CONTAINER} args 2": "/srv/mine.py",
            f"{CONTAINER} image": "registry.example.com/mine:7",
        },
        PASSES,
    ),
    Tried(
        "a proxy beside",
        "serving",
        {
            f"{SERVING} containers +": {
                "name": "istio-proxy",
                "image": "docker.io/istio/proxyv2:1.24.0",
                "ports": [{"containerPort": 15090}],
                "securityContext": {"runAsUser": 1337},
            }
        },
        PASSES,
    ),
    Tried(
        "a shipper of logs beside Ray",
        "eks",
        {
            f"{WORKERS} containers +": {
                "name": "logs",
                "image": "fluent/fluent-bit:3.2.2",
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "runAsNonRoot": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [{"name": "tmp", "mountPath": "/logs"}],
            }
        },
        PASSES,
    ),
    Tried(
        "annotations of a mesh, Argo CD and others",
        "serving",
        {
            "Deployment metadata annotations": {
                "argocd.argoproj.io/sync-wave": "2",
                "reloader.stakater.com/auto": "true",
            },
            "Deployment spec template metadata annotations": {
                "sidecar.istio.io/inject": "true",
                "prometheus.io/scrape": "true",
            },
        },
        NOTHING,
    ),
    Tried(
        "cert-manager and an Ingress",
        "serving",
        {},
        PASSES,
        added="""
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: oka, namespace: oka}
spec: {secretName: oka-tls, dnsNames: [a.example.com], issuerRef: {name: letsencrypt, kind: ClusterIssuer}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: oka, namespace: oka, annotations: {cert-manager.io/cluster-issuer: letsencrypt}}
spec:
  ingressClassName: nginx
  tls: [{hosts: [a.example.com], secretName: oka-tls}]
  rules: [{host: a.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: oka-serving, port: {number: 80}}}}]}}]
""",
    ),
    Tried(
        "a Secret from outside",
        "serving",
        {f"{SERVING} volumes 3 secret secretName": "serving-token"},
        PASSES,
        added="""
apiVersion: external-secrets.io/v1
kind: ExternalSecret
metadata: {name: serving-token, namespace: oka}
spec: {secretStoreRef: {name: aws, kind: ClusterSecretStore}, target: {name: serving-token}, data: [{secretKey: token, remoteRef: {key: oka}}]}
""",
    ),
    Tried(
        "Istio's own routes",
        "serving",
        {},
        PASSES,
        added="""
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: oka, namespace: oka}
spec: {hosts: [a.example.com], http: [{route: [{destination: {host: oka-serving}}]}]}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: oka, namespace: oka}
spec: {mtls: {mode: STRICT}}
""",
    ),
    Tried(
        "the Gateway API",
        "serving",
        {},
        PASSES,
        added="""
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: oka, namespace: oka}
spec: {parentRefs: [{name: web}], rules: [{backendRefs: [{name: oka-serving, port: 80}]}]}
""",
    ),
    Tried(
        "a ServiceMonitor and a rule",
        "serving",
        {},
        PASSES,
        added="""
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: oka, namespace: oka}
spec: {selector: {matchLabels: {app.kubernetes.io/name: oka}}, endpoints: [{port: http}]}
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: oka, namespace: oka}
spec: {groups: []}
""",
    ),
    Tried(
        "KEDA",
        "serving",
        {},
        PASSES,
        added="""
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: oka, namespace: oka}
spec: {scaleTargetRef: {name: oka-serving}, triggers: []}
""",
    ),
    Tried(
        "a CronJob, a Job and a StatefulSet of others",
        "eks",
        {},
        NOTHING,
        added="""
apiVersion: batch/v1
kind: CronJob
metadata: {name: clean, namespace: oka}
spec:
  schedule: "0 3 * * *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: aws, image: "amazon/aws-cli:2.15.0", args: [s3, rm]}]}}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: load, namespace: oka}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: aws, image: "amazon/aws-cli:2.15.0"}]}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: kafka, namespace: oka}
spec:
  serviceName: kafka
  selector: {matchLabels: {app: kafka}}
  template: {metadata: {labels: {app: kafka}}, spec: {containers: [{name: kafka, image: "apache/kafka:3.9.0"}]}}
---
apiVersion: v1
kind: Service
metadata: {name: kafka, namespace: oka}
spec: {clusterIP: None, selector: {app: kafka}, ports: [{port: 9092}]}
""",
    ),
    Tried(
        "a quota, limits and a priority class",
        "eks",
        {f"{WORKERS} priorityClassName": "stream"},
        NOTHING,
        added="""
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: stream}
value: 100
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: oka, namespace: oka}
spec: {hard: {requests.cpu: "100", limits.memory: 200Gi, pods: "50"}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: oka, namespace: oka}
spec: {limits: [{type: Container, default: {cpu: 500m}, max: {cpu: "16", memory: 64Gi}}]}
""",
    ),
    Tried(
        "GKE",
        "eks",
        {
            f"{WORKERS} nodeSelector": {"cloud.google.com/gke-nodepool": "workers"},
            f"{HEAD} nodeSelector": {"cloud.google.com/gke-nodepool": "heads"},
            "ServiceAccount metadata annotations": {
                "iam.gke.io/gcp-service-account": "oka@project.iam.gserviceaccount.com"
            },
        },
        PASSES,
    ),
    Tried(
        "AKS",
        "eks",
        {
            f"{WORKERS} nodeSelector": {"kubernetes.azure.com/agentpool": "workers"},
            f"{HEAD} nodeSelector": {"kubernetes.azure.com/agentpool": "heads"},
            f"{CLUSTER} headGroupSpec template metadata labels azure.workload.identity/use": "true",
        },
        PASSES,
    ),
    Tried(
        "larger nodes of another kind",
        "eks",
        {
            f"{WORKERS} nodeSelector": {"node.kubernetes.io/instance-type": "n2-standard-32"},
            f"{WORKERS} containers 0 resources limits memory": "96Gi",
            f"{WORKERS} containers 0 resources requests memory": "96Gi",
        },
        PASSES,
    ),
    Tried(
        "taints that pods tolerate",
        "eks",
        {
            "eks managedNodeGroups 1 taints": [
                {"key": "oka", "value": "a", "effect": "NoSchedule"}
            ],
            "RayJob/oka-word-count spec rayClusterSpec workerGroupSpecs 0 template spec tolerations": [
                {"key": "oka", "operator": "Exists"}
            ],
            "RayCluster spec workerGroupSpecs 0 template spec tolerations": [
                {"key": "oka", "operator": "Exists"}
            ],
            "RayJob/oka-model-broadcast spec rayClusterSpec workerGroupSpecs 0 template spec tolerations": [
                {"key": "oka", "operator": "Exists"}
            ],
            "RayJob/oka-model-broadcast spec rayClusterSpec workerGroupSpecs 1 template spec tolerations": [
                {"key": "oka", "operator": "Exists"}
            ],
        },
        NOTHING,
    ),
    Tried(
        "spread over zones",
        "eks",
        {
            f"{WORKERS} topologySpreadConstraints 0 whenUnsatisfiable": "DoNotSchedule",
            "eks managedNodeGroups 1 availabilityZones": ["eu-central-1a", "eu-central-1b"],
        },
        PASSES,
    ),
    Tried(
        "a role that the overlay names",
        "eks",
        {
            "ServiceAccount metadata annotations": {
                "eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/oka"
            },
            "eks iam serviceAccounts": [],
        },
        PASSES,
    ),
    Tried(
        "pod identities",
        "eks",
        {
            "eks iam": {
                "podIdentityAssociations": [
                    {
                        "namespace": "oka",
                        "serviceAccountName": "oka",
                        "permissionPolicyARNs": ["arn:aws:iam::aws:policy/AmazonS3FullAccess"],
                    }
                ]
            }
        },
        PASSES,
    ),
    Tried(
        "a managed policy beside",
        "eks",
        {
            **GOES_ON,
            "settings/word-count checkpoints": "s3://other/checkpoints/1",
            "eks iam serviceAccounts 0 attachPolicyARNs": [
                "arn:aws:iam::111122223333:policy/state"
            ],
        },
        PASSES,
    ),
    Tried(
        "checkpoints on a volume that all share",
        "eks",
        {
            **VOLUME,
            "settings/word-count checkpoints": "/state/word-count",
            "settings/word-count resume": "latest",
        },
        PASSES,
        added=CLAIM.format("ReadWriteMany"),
    ),
    Tried(
        "a job without an end",
        "eks",
        {**GOES_ON, f"{JOB} activeDeadlineSeconds": None, f"{JOB} backoffLimit": 20},
        PASSES,
    ),
    Tried(
        "Kueue",
        "eks",
        {
            f"{JOB} suspend": True,
            "RayJob/oka-word-count metadata labels kueue.x-k8s.io/queue-name": "team",
        },
        PASSES,
    ),
    Tried(
        "HTTPMode",
        "eks",
        {
            f"{JOB} submissionMode": "HTTPMode",
            f"{JOB} submitterPodTemplate": None,
            f"{JOB} submitterConfig": None,
        },
        PASSES,
    ),
    Tried(
        "a RayService beside",
        "eks",
        {},
        PASSES,
        added="""
apiVersion: ray.io/v1
kind: RayService
metadata: {name: other, namespace: oka}
spec: {}
""",
    ),
    Tried(
        "a LoadBalancer for clients",
        "serving",
        {
            "Service spec type": "LoadBalancer",
            "Service metadata annotations": {
                "service.beta.kubernetes.io/aws-load-balancer-type": "nlb"
            },
        },
        PASSES,
    ),
    Tried(
        "more CPUs on the head",
        "eks",
        {
            f"{HEAD} containers 0 resources limits cpu": "3",
            f"{HEAD} containers 0 resources requests cpu": "3",
        },
        NOTHING,
    ),
    Tried(
        "requests below limits", "serving", {f"{CONTAINER} resources requests cpu": "500m"}, PASSES
    ),
    Tried(
        "the operator in another namespace",
        "eks",
        {
            "NetworkPolicy/oka-dashboard spec ingress 0 from 0 namespaceSelector matchLabels kubernetes.io/metadata.name": "ray-operator"
        },
        PASSES,
    ),
    Tried(
        "DNS on the node",
        "eks",
        {
            "NetworkPolicy/oka-ray spec egress +": {
                "to": [{"ipBlock": {"cidr": "169.254.20.10/32"}}],
                "ports": [{"protocol": "UDP", "port": 53}],
            }
        },
        PASSES,
    ),
    Tried(
        "policies of Cilium",
        "serving",
        {},
        PASSES,
        added="""
apiVersion: cilium.io/v2
kind: CiliumNetworkPolicy
metadata: {name: oka, namespace: oka}
spec: {endpointSelector: {}}
""",
    ),
    Tried(
        "no policy between Ray's pods but who they are",
        "eks",
        {
            "NetworkPolicy/oka-ray spec ingress": [
                {"from": [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "oka"}}}]}
            ]
        },
        PASSES,
    ),
    Tried(
        "a namespace with a quota of its own kind",
        "eks",
        {"Namespace metadata labels istio-injection": "enabled"},
        NOTHING,
    ),
    Tried(
        "three replicas and a budget of two",
        "serving",
        {"Deployment spec replicas": 3, "PodDisruptionBudget spec minAvailable": 2},
        NOTHING,
    ),
    Tried(
        "a budget by maxUnavailable",
        "serving",
        {
            "PodDisruptionBudget spec minAvailable": None,
            "PodDisruptionBudget spec maxUnavailable": 1,
        },
        NOTHING,
    ),
    Tried(
        "an init container that loads a model",
        "serving",
        {
            f"{SERVING} initContainers": [
                {
                    "name": "model",
                    "image": "amazon/aws-cli:2.15.0",
                    "args": ["s3", "cp"],
                    "volumeMounts": [{"name": "home", "mountPath": "/home/oka"}],
                }
            ]
        },
        PASSES,
    ),
    Tried(
        "a readiness probe by a command",
        "serving",
        {f"{CONTAINER} readinessProbe": {"exec": {"command": ["true"]}}},
        PASSES,
    ),
    Tried(
        "actions in lower case",
        "eks",
        {**GOES_ON, f"{ROLE} 2 Action": ["s3:getobject", "s3:putobject", "s3:deleteobject"]},
        PASSES,
    ),
    Tried(
        "S3 in China",
        "eks",
        {
            **GOES_ON,
            ROLE: [
                {
                    "Effect": "Allow",
                    "Action": "s3:*",
                    "Resource": "arn:aws-cn:s3:::oka-models-example*",
                }
            ],
        },
        PASSES,
    ),
    Tried(
        "a quota of some pods alone",
        "eks",
        {},
        NOTHING,
        added="""
apiVersion: v1
kind: ResourceQuota
metadata: {name: a, namespace: oka}
spec: {hard: {pods: "1"}, scopes: [BestEffort]}
""",
    ),
    Tried(
        "no volume in the groups that are empty",
        "eks",
        {
            **{key: each for key, each in VOLUME.items() if "workerGroupSpecs 1" not in key},
            "settings/word-count checkpoints": "/state/word-count",
            "settings/word-count resume": "latest",
        },
        PASSES,
    ),
    Tried(
        "another S3, with keys from a Secret",
        "eks",
        {
            **{
                f"{pod} containers 0 env +": {
                    "name": "AWS_ENDPOINT_URL",
                    "value": "http://minio.minio:9000",
                }
                for pod in PODS
            },
            **{
                f"{pod} containers 0 envFrom": [{"secretRef": {"name": "minio"}}]
                for pod in (*PODS, f"{JOB} submitterPodTemplate spec")
            },
            "settings/word-count checkpoints": "s3://state/word-count",
            "settings/word-count resume": "latest",
        },
        PASSES,
    ),
    Tried(
        "half a CPU as a number",
        "serving",
        {
            f"{CONTAINER} resources limits cpu": 0.5,
            f"{CONTAINER} resources requests cpu": 0.5,
        },
        NOTHING,
    ),
)
# fmt: on
