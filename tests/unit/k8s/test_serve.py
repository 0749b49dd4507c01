"""Manifests of pipelines that serve requests: a Deployment, its Service, and what they need."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from engine.errors import EngineError
from k8s.check.report import check
from k8s.command import render as command
from k8s.manifests import FOLDER, build, dump, name, of_kind
from k8s.options import Options
from k8s.serve import IN_FLIGHT, is_serving, render
from k8s.subject import Subject

Documents: TypeAlias = list[dict[str, Any]]

DIGITS = (
    "pipelines/online_inference.py folder=/home/oka/digits host=0.0.0.0 token_file=/etc/oka/token"
)
ECHO = """
from operators import source
from operators.sources import HttpSource

def echo(host: str = "0.0.0.0", port: int = 9000, timeout: float = 12.5, path: str = "/echo"):
    requests = source(HttpSource(port, path, host, token="x", timeout=timeout, max_in_flight=100))
    return requests.map(lambda request: request.reply(request.body)).respond()

def secured():
    certificate = ("/etc/oka/tls.crt", "/etc/oka/tls.key")
    requests = source(HttpSource(9000, "/", "0.0.0.0", token="x", certificate=certificate))
    return requests.map(lambda request: request.reply(request.body)).respond()

def gateways(most: int = 100, count: int = 1):
    requests = source(HttpSource(9000, "/", "0.0.0.0", token="x", max_in_flight=most))
    requests = requests.with_parallelism(count).on_nodes(0)
    return requests.map(lambda request: request.reply(request.body)).respond()

def elsewhere():
    certificate = ("/tls/a.crt", "/tls/a.key")
    requests = source(HttpSource(9000, "/", "0.0.0.0", token="x", certificate=certificate))
    return requests.map(lambda request: request.reply(request.body)).respond()

def two():
    return [echo(), echo(port=9002, path="/b")]
"""


@pytest.fixture
def echo(tmp_path: Path) -> str:
    file = tmp_path / "echo.py"
    file.write_text(ECHO, encoding="utf-8")
    return str(file)


def parameters(line: str) -> dict[str, Any]:
    words = command.make_context("render", shlex.split(line)).params
    own = {*Options.__dataclass_fields__, "overlay", "slots", "job_name"}
    return {key: value for key, value in words.items() if key not in own}


def rendered(line: str, overlay: str = "serving", **options: Any) -> Documents:
    return render(build(overlay), parameters(line), options=Options(**options))


def pod_of(documents: Documents) -> dict[str, Any]:
    (deployment,) = of_kind(documents, "Deployment")
    found: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize(
    ("line", "expected"), [(DIGITS, True), ("pipelines/word_count.py repeat=2", False)]
)
def test_a_pipeline_serves_if_it_begins_with_requests(line: str, expected: bool) -> None:
    assert is_serving(parameters(line)) == expected


def test_a_deployment_with_its_service() -> None:
    found = rendered(DIGITS)
    kinds = ["ServiceAccount", "Service", "Deployment", "PodDisruptionBudget", "NetworkPolicy"]
    assert [name(each) for each in found] == [f"{kind}/oka-online-inference" for kind in kinds]
    assert pod_of(found)["containers"][0]["args"] == [
        *("oka", "run", "pipelines/online_inference.py", "folder=/home/oka/digits"),
        *("host=0.0.0.0", "token_file=/etc/oka/token", "--drain-seconds=40", "--progress=none"),
    ]


def test_port_timeout_path_and_size_are_those_of_the_pipeline(echo: str) -> None:
    line = f"{echo} port=9001 -p 3 --set marker_interval=7"
    found = rendered(line, "serving-public", host="a.b", max_replicas=5)
    pod = pod_of(found)
    (container,) = pod["containers"]
    assert container["ports"] == [{"containerPort": 9001, "name": "http"}]
    assert container["args"][2:] == [
        *(echo, "port=9001", "--set=parallelism=3", "--set=marker_interval=7"),
        *("--drain-seconds=23", "--progress=none"),
    ]
    assert pod["terminationGracePeriodSeconds"] == 23 + 5 + 5
    assert container["resources"]["limits"]["cpu"] == "3"
    ports = {
        port["port"]
        for policy in of_kind(found, "NetworkPolicy")
        for rule in policy["spec"]["ingress"]
        for port in rule["ports"]
    }
    assert ports == {9001}
    (ingress,) = of_kind(found, "Ingress")
    assert ingress["spec"]["tls"][0]["hosts"] == ["a.b"]
    (rule,) = ingress["spec"]["rules"]
    assert (rule["host"], rule["http"]["paths"][0]["path"]) == ("a.b", "/echo")
    annotations = ingress["metadata"]["annotations"]
    assert annotations["nginx.ingress.kubernetes.io/proxy-read-timeout"] == "60"
    assert annotations["nginx.ingress.kubernetes.io/proxy-body-size"] == str(16 * 2**20)
    (autoscaler,) = of_kind(found, "HorizontalPodAutoscaler")
    assert (autoscaler["spec"]["minReplicas"], autoscaler["spec"]["maxReplicas"]) == (2, 5)
    (deployment,) = of_kind(found, "Deployment")
    assert "replicas" not in deployment["spec"]  # the autoscaler says it


def test_the_ingress_waits_for_longer_than_the_gateway_and_lets_in_its_path_alone(
    echo: str,
) -> None:
    found = rendered(f"{echo} timeout=300 path=/", "serving-public", host="a.b")
    (ingress,) = of_kind(found, "Ingress")
    annotations = ingress["metadata"]["annotations"]
    assert annotations["nginx.ingress.kubernetes.io/proxy-read-timeout"] == "310"
    (path,) = ingress["spec"]["rules"][0]["http"]["paths"]
    assert (path["path"], path["pathType"]) == ("/", "Exact")  # not /-/metrics


@pytest.mark.parametrize(
    ("line", "average"),
    [
        (DIGITS, "512"),  # the default of HttpSource is 1,024
        ("{echo} port=9001", "50"),
        ("{echo}:secured", "512"),
        ("{echo}:gateways", "50"),
        ("{echo}:gateways most=1", "500m"),
        ("{echo}:gateways most=7", "3500m"),
        ("{echo}:gateways count=3", "150"),
    ],
)
def test_pods_are_added_by_requests_under_way(echo: str, line: str, average: str) -> None:
    found = rendered(line.format(echo=echo), "serving-public", host="a.b")
    (autoscaler,) = of_kind(found, "HorizontalPodAutoscaler")
    (deployment,) = of_kind(found, "Deployment")
    target = autoscaler["spec"]["scaleTargetRef"]
    assert target == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": deployment["metadata"]["name"],
    }
    cpu, in_flight = autoscaler["spec"]["metrics"]
    assert cpu["resource"]["name"] == "cpu"
    assert in_flight["pods"] == {
        "metric": {"name": IN_FLIGHT},
        "target": {"type": "AverageValue", "averageValue": average},
    }
    (container,) = pod_of(found)["containers"]
    (monitor,) = of_kind(found, "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert [endpoint["port"]] == [port["name"] for port in container["ports"]]
    assert endpoint["path"] == "/-/metrics"
    scheme = container["readinessProbe"]["httpGet"].get("scheme", "HTTP")
    assert endpoint.get("scheme", "http") == scheme.lower()
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (subject,) = check([Subject("rendered", dump(found), scaled=True)])
    assert [str(said) for said in subject if said.check in ("metrics", "policies")] == []


def test_autoscaling_by_cpu_alone_needs_no_prometheus(echo: str, tmp_path: Path) -> None:
    copy = tmp_path / "k8s"
    shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns("*.py", "schemas"))
    (sed,) = re.findall(r"^ +(sed .*by-cpu.*)$", (copy / "README.md").read_text(), re.MULTILINE)
    subprocess.run(["bash", "-c", sed], cwd=tmp_path, check=True)
    found = rendered(echo, str(copy / "overlays" / "serving-public"), host="a.b")
    assert of_kind(found, "PodMonitor") == []
    (autoscaler,) = of_kind(found, "HorizontalPodAutoscaler")
    assert [each["resource"]["name"] for each in autoscaler["spec"]["metrics"]] == ["cpu"]
    (subject,) = check([Subject("rendered", dump(found), scaled=True)])
    assert [str(said) for said in subject if not said.is_note or said.check == "metrics"] == []


def test_the_rule_for_the_adapter_is_of_what_the_autoscaler_goes_by() -> None:
    (text,) = re.findall(r"```yaml\n(rules:.*?)```", (FOLDER / "README.md").read_text(), re.DOTALL)
    (rule,) = yaml.safe_load(text)["rules"]["custom"]
    assert rule["seriesQuery"].partition("{")[0] == IN_FLIGHT
    labels = rule["resources"]["overrides"]
    assert {label: found["resource"] for label, found in labels.items()} == {
        "namespace": "namespace",
        "pod": "pod",
    }
    for variable in ("<<.Series>>", "<<.LabelMatchers>>", "<<.GroupBy>>"):
        assert variable in rule["metricsQuery"]


def test_two_pipelines_share_no_object_and_pass_the_check(echo: str) -> None:
    found = [rendered(DIGITS), rendered(echo, replicas=3)]
    names = [{name(each) for each in documents} for documents in found]
    assert not names[0] & names[1]
    (deployment,) = of_kind(found[1], "Deployment")
    assert deployment["spec"]["replicas"] == 3
    public = rendered(f"{echo}:secured", "serving-public", host="a.b", max_replicas=5, gpu=1)
    files = [found[0], found[1], [*found[0], *found[1]], public]
    subjects = [Subject(str(n), dump(each), scaled=True) for n, each in enumerate(files)]
    assert [str(said) for each in check(subjects) for said in each if not said.is_note] == []


def test_whoever_comes_to_a_gateway_with_a_certificate_speaks_tls(echo: str) -> None:
    found = rendered(f"{echo}:secured", "serving-public", host="a.b")
    (container,) = pod_of(found)["containers"]
    probes = ("readinessProbe", "livenessProbe", "startupProbe")
    assert {container[each]["httpGet"]["scheme"] for each in probes} == {"HTTPS"}
    (ingress,) = of_kind(found, "Ingress")
    assert "HTTPS" in ingress["metadata"]["annotations"].values()


@pytest.mark.parametrize(
    ("overlay", "replicas", "budget"),
    [
        ("serving", 1, {"maxUnavailable": 1}),
        ("serving", 2, {"minAvailable": 1}),
        ("serving-public", 1, {"maxUnavailable": 1}),
        ("serving-public", 3, {"minAvailable": 1}),
    ],
)
def test_the_node_of_a_single_pod_can_be_drained(
    echo: str, overlay: str, replicas: int, budget: dict[str, int]
) -> None:
    found = rendered(echo, overlay, replicas=replicas)
    (document,) = of_kind(found, "PodDisruptionBudget")
    assert budget.items() <= document["spec"].items()
    assert len({"minAvailable", "maxUnavailable"} & document["spec"].keys()) == 1


def test_another_name_leaves_the_image_as_it_is(echo: str) -> None:
    documents = build("serving")
    pod_of(documents)["containers"][0]["image"] = "registry.example.com/serving/oka:1"
    found = render(documents, parameters(echo), options=Options())
    assert pod_of(found)["containers"][0]["image"] == "registry.example.com/serving/oka:1"


def test_gpus_and_spot_nodes_are_for_pods_that_serve_too(echo: str) -> None:
    pod = pod_of(rendered(echo, gpu=1, spot=True, env=["A=b"], env_from=["keys"], image="r/oka"))
    (container,) = pod["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert container["image"] == "r/oka:0.1.0-ray2.60.0"
    assert {"name": "A", "value": "b"} in container["env"]
    assert container["envFrom"] == [{"secretRef": {"name": "keys"}}]
    assert {"nodeAffinity", "podAntiAffinity"} == pod["affinity"].keys()
    assert "nvidia.com/gpu" in {each["key"] for each in pod["tolerations"]}


@pytest.mark.parametrize(
    ("line", "overlay", "options", "message", "hint"),
    [
        ("{echo} host=127.0.0.1", "serving", {}, "listens on 127.0.0.1", "host=0.0.0.0"),
        ("{echo} port=80", "serving", {}, "port 80, expected 1024 or more", "Service"),
        ("{echo}:two", "serving", {}, "listens on ports 9000, 9002, expected one", "for each"),
        ("{echo}:elsewhere", "serving", {}, "is /tls/a.crt, expected a file of a vol", "/etc/oka"),
        ("{echo}", "eks", {}, "expected an overlay with a Deployment", "--overlay serving"),
        (
            "{echo}",
            "serving",
            {"host": "a.b"},
            "--host needs a document of kind Ingress",
            "serving-public",
        ),
        ("{echo}", "serving", {"max_replicas": 3}, "HorizontalPodAutoscaler", "serving-public"),
        (
            *("{echo}", "serving-public", {"replicas": 4, "max_replicas": 3}),
            *("--replicas is 4 and --max-replicas 3", ""),
        ),
        ("{echo}", "serving", {"endless": True}, "--endless is for a job on Ray", "--replicas"),
        ("{echo}", "serving", {"spare": 1}, "--spare is for a job on Ray", "--replicas"),
        ("{echo} --checkpoints s3://a/b", "serving", {}, "--checkpoints is for a job on Ray", ""),
        ("{echo} --runtime ray", "serving", {}, "runtime is 'ray', expected 'local'", ""),
    ],
)
def test_what_nobody_could_reach_is_refused(
    echo: str, line: str, overlay: str, options: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(EngineError) as caught:
        rendered(line.format(echo=echo), overlay, **options)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
