"""Manifests of a pipeline that serves requests: pods without Ray, and a Service."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from engine.cli.program import load_pipeline
from engine.config import JobConfig
from engine.errors import ConfigError
from engine.gateway import GatewaySettings
from engine.plan import Plan
from k8s.jobs import located, plan
from k8s.manifests import Document, component, name, of_kind, pods, spec
from k8s.options import Options, asked, dress, give_gpus, one, prefer_spot
from k8s.quantity import bytes_text, parse
from k8s.render import check_name, pipeline_name, renamed
from k8s.size import TASK_BYTES, most_channels


def is_serving(parameters: Mapping[str, Any]) -> bool:
    """Whether the pipeline begins with requests. Raises ConfigError if it cannot be loaded."""
    with _stand_ins(parameters["arguments"]) as arguments:
        found, _ = load_pipeline(located(parameters["target"]), arguments)
        return bool(_gateways(Plan.of(found, JobConfig())))


def render(
    documents: Sequence[Document],
    parameters: Mapping[str, Any],
    slots: int | None = None,
    job_name: str | None = None,
    options: Options = Options(),  # noqa: B008 - it is frozen
) -> list[Document]:
    """An overlay's Deployment, Service and their other documents, for this pipeline.

     Command, port, probes, policy, drain and size are those of the pipeline and its gateway. Raises
    ConfigError if no client could reach it, and for options of jobs on Ray.
    """
    _refuse(parameters, slots, options)
    found = copy.deepcopy(list(documents))
    _deployment(found)
    pipeline = pipeline_name(parameters["target"])
    check_name(job_name or pipeline)
    found = [renamed(each, _TEMPLATE, job_name or pipeline) for each in found]
    deployment = _deployment(found)
    with _stand_ins(parameters["arguments"]) as arguments:
        options_of_it = {"config": None, "more": (), "insecure": False}
        planned = plan({**options_of_it, **parameters, "arguments": arguments})
    gateway, gateways = _the_gateway(planned, parameters["target"])
    container = spec(spec(deployment)["template"])["containers"][0]
    container["args"] = _words(parameters, planned.config, gateway)
    _set_gateway(found, deployment, gateway)
    _set_size(container, planned)
    if options.gpu:
        give_gpus(spec(spec(deployment)["template"]), container, options.gpu)
    _set_replicas(found, deployment, options)
    _set_autoscaling(found, gateways * gateway.max_in_flight)
    if options.host is not None:
        _set_host(found, options.host)
    if options.spot:
        for pod in pods(found):
            prefer_spot(pod)
    dress(found, options)
    return found


def _refuse(parameters: Mapping[str, Any], slots: int | None, options: Options) -> None:
    given = list(asked(options, ("endless", "deadline", "retries", "spare")))
    given += ["--slots"] * (slots is not None)
    given += [f"--{each}" for each in ("checkpoints", "resume") if parameters.get(each) is not None]
    for option in given:
        raise ConfigError(
            f"{option} is for a job on Ray, expected a pipeline without an HttpSource",
            "pods that serve have no end and no state; --replicas says how many there are",
        )
    if parameters.get("runtime") not in (None, "local"):
        raise ConfigError(
            f"runtime is {parameters['runtime']!r}, expected 'local'", "a pod has all of its tasks"
        )


def _gateways(planned: Plan) -> list[tuple[GatewaySettings, int]]:
    """A gateway's settings, and the number of gateways at one port."""
    return [
        (gateway, vertex.parallelism)
        for vertex in planned.execution.job.vertices
        for each in vertex.operators
        if (gateway := each.operator.properties.wanted(GatewaySettings)) is not None
    ]


def _the_gateway(planned: Plan, target: str) -> tuple[GatewaySettings, int]:
    """The gateway of the Service. Raises ConfigError if a Service cannot reach it."""
    gateways = _gateways(planned)
    if len(gateways) != 1:
        ports = ", ".join(str(each.port) for each, _ in gateways)
        raise ConfigError(
            f"{target} listens on ports {ports}, expected one HttpSource",
            "a Service leads to one port and its probes to one gateway: a pipeline for each",
        )
    ((gateway, count),) = gateways
    if gateway.host in ("127.0.0.1", "localhost", "::1"):
        raise ConfigError(
            f"{target} listens on {gateway.host}, expected an address that other pods reach",
            "HttpSource(host='0.0.0.0', token=…); pipelines/online_inference.py takes "
            "host=0.0.0.0 token_file=/etc/oka/token",
        )
    if gateway.port < _LEAST_PORT:
        raise ConfigError(
            f"{target} listens on port {gateway.port}, expected {_LEAST_PORT} or more",
            "pods do not run as root; the Service has port 80",
        )
    return gateway, count


def _words(parameters: Mapping[str, Any], config: JobConfig, gateway: GatewaySettings) -> list[str]:
    words = ["oka", "run", parameters["target"], *parameters["arguments"]]
    for field in dataclasses.fields(JobConfig):
        value = getattr(config, field.name)
        if field.name not in _NOT_SET and value != getattr(JobConfig(), field.name):
            text = value if isinstance(value, str) else json.dumps(value)
            words.append(f"--set={field.name}={text}")
    return [*words, f"--drain-seconds={_drain(gateway)}", "--progress=none"]


def _drain(gateway: GatewaySettings) -> int:
    return math.ceil(gateway.timeout_seconds) + _DRAIN_SECONDS


def _set_gateway(
    documents: Sequence[Document], deployment: Document, gateway: GatewaySettings
) -> None:
    """Set port and probes of the gateway, and the time for running requests as a pod ends."""
    pod = spec(spec(deployment)["template"])
    container = pod["containers"][0]
    before = next(each["containerPort"] for each in container["ports"] if each["name"] == "http")
    for port in container["ports"]:
        if port["name"] == "http":
            port["containerPort"] = gateway.port
    if gateway.certificate is not None:
        _check_files(container, gateway.certificate)
        _set_https(documents, container)
    sleep = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    pod["terminationGracePeriodSeconds"] = _drain(gateway) + sleep + _END_SECONDS
    for policy in of_kind(documents, "NetworkPolicy"):
        for rule in spec(policy).get("ingress", ()):
            for port in rule.get("ports", ()):
                if port["port"] == before:
                    port["port"] = gateway.port
    for ingress in of_kind(documents, "Ingress"):
        ingress["metadata"].setdefault("annotations", {}).update(
            {
                f"{_NGINX}/proxy-read-timeout": str(max(_LEAST_SECONDS, _drain(gateway))),
                f"{_NGINX}/proxy-body-size": str(gateway.max_body_bytes),
            }
        )
        for rule in spec(ingress)["rules"]:
            for path in rule["http"]["paths"]:
                path["path"] = gateway.path


def _check_files(container: Any, files: Sequence[str]) -> None:
    """Raise ConfigError for a file that a pod would not have."""
    folders = [each["mountPath"] for each in container.get("volumeMounts", ())]
    for file in files:
        if not any(PurePosixPath(file).is_relative_to(folder) for folder in folders):
            raise ConfigError(
                f"certificate is {file}, expected a file of a volume: {', '.join(folders)}",
                "certificate=('/etc/oka/tls.crt', '/etc/oka/tls.key'), keys of the token's Secret",
            )


def _set_https(documents: Sequence[Document], container: Any) -> None:
    """Let clients of the pods speak TLS, and trust their certificate."""
    for probe in ("readinessProbe", "livenessProbe", "startupProbe"):
        if "httpGet" in container.get(probe, {}):
            container[probe]["httpGet"]["scheme"] = "HTTPS"
    for monitor in of_kind(documents, "PodMonitor"):  # Prometheus connects by address
        for endpoint in spec(monitor)["podMetricsEndpoints"]:
            endpoint.update(scheme="https", tlsConfig={"insecureSkipVerify": True})
    for ingress in of_kind(documents, "Ingress"):
        ingress["metadata"]["annotations"][f"{_NGINX}/backend-protocol"] = "HTTPS"


def _set_size(container: Any, planned: Plan) -> None:
    """Set a CPU for each task of the operator with the most tasks, and memory for all tasks."""
    tasks = [vertex.parallelism for vertex in planned.execution.job.vertices]
    resources, config = container["resources"], planned.config
    channels = most_channels(planned.execution) * config.channel_window_bytes
    needed = sum(tasks) * (TASK_BYTES + channels)
    for kind in ("requests", "limits"):
        at_least = int(parse(resources[kind]["memory"]))
        memory = max(at_least, math.ceil(needed / _STEP_BYTES) * _STEP_BYTES)
        resources[kind].update(cpu=str(max(tasks)), memory=bytes_text(memory))


def _set_replicas(documents: Sequence[Document], deployment: Document, options: Options) -> None:
    autoscalers = of_kind(documents, "HorizontalPodAutoscaler")
    if options.max_replicas is not None:
        autoscaler = one(documents, "HorizontalPodAutoscaler", "--max-replicas", _PUBLIC)
        spec(autoscaler)["maxReplicas"] = options.max_replicas
    if options.replicas is not None and not autoscalers:
        spec(deployment)["replicas"] = options.replicas
    for autoscaler in autoscalers:
        found = spec(autoscaler)
        found["minReplicas"] = options.replicas or min(found["minReplicas"], found["maxReplicas"])
        if found["minReplicas"] > found["maxReplicas"]:
            raise ConfigError(
                f"--replicas is {found['minReplicas']} and --max-replicas {found['maxReplicas']}, "
                "expected no more than that"
            )
    least = min([spec(each)["minReplicas"] for each in autoscalers] or [_replicas(deployment)])
    for budget in of_kind(documents, "PodDisruptionBudget"):
        if spec(budget).get("minAvailable") == least:  # no node of theirs could be drained
            del budget["spec"]["minAvailable"]
            budget["spec"]["maxUnavailable"] = 1


def _replicas(deployment: Document) -> int:
    return int(spec(deployment).get("replicas", 1))


def _set_autoscaling(documents: Sequence[Document], most: int) -> None:
    """Set the HPA's target: half of the requests that a pod accepts."""
    for autoscaler in of_kind(documents, "HorizontalPodAutoscaler"):
        for metric in spec(autoscaler)["metrics"]:
            if metric.get("pods", {}).get("metric", {}).get("name") == IN_FLIGHT:
                half = str(most // 2) if most % 2 == 0 else f"{most * 500}m"
                metric["pods"]["target"]["averageValue"] = half


def _set_host(documents: Sequence[Document], host: str) -> None:
    ingress = spec(one(documents, "Ingress", "--host", _PUBLIC))
    for rule in ingress["rules"]:
        rule["host"] = host
    for secured in ingress.get("tls", ()):
        secured["hosts"] = [host]


def _deployment(documents: Sequence[Document]) -> Document:
    for document in of_kind(documents, "Deployment"):
        containers = spec(spec(document)["template"])["containers"]
        if any((each.get("args") or [])[:2] == ["oka", "run"] for each in containers):
            return document
    there = ", ".join(name(each) for each in documents if component(each) is not None)
    raise ConfigError(
        "the pipeline serves requests, expected an overlay with a Deployment of `oka run`, "
        f"found {there}",
        "--overlay serving",
    )


@contextmanager
def _stand_ins(arguments: Sequence[str]) -> Iterator[list[str]]:
    """The arguments, with paths of a pod replaced by a folder of this machine.

    If they name a file of a Secret, that file exists and has a token.
    """
    with tempfile.TemporaryDirectory(prefix="oka-k8s-") as folder:
        yield [_stand_in(argument, Path(folder)) for argument in arguments]


def _stand_in(argument: str, folder: Path) -> str:
    key, equals, value = argument.partition("=")
    if not value.startswith(_OF_THE_POD) or Path(value).exists():
        return argument
    path = folder / PurePosixPath(value).relative_to("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    if value.startswith(_OF_SECRETS):
        path.write_text("stand-in\n", encoding="utf-8")
    return f"{key}{equals}{path}"


IN_FLIGHT = "oka_requests_in_flight"
"""The gateway's metric of requests under way."""
_TEMPLATE = "serving"
_PUBLIC = "--overlay serving-public has one"
_OF_SECRETS = "/etc/oka/"
_OF_THE_POD = (_OF_SECRETS, "/home/oka/", "/tmp/")  # noqa: S108 - of the pod
_NOT_SET = ("name", "progress", "runtime")
_NGINX = "nginx.ingress.kubernetes.io"
_LEAST_SECONDS = 60
"""Seconds that the controller waits for an answer; the gateway reports a timeout before."""
_LEAST_PORT = 1024
_DRAIN_SECONDS = 10
"""Above the timeout of requests, so that all accepted requests are answered."""
_END_SECONDS = 5
"""From the end of the drain to that of the process."""
_STEP_BYTES = 256 * 1024**2
