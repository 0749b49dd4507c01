"""Manifests of pipelines that serve requests: a Deployment, its Service, and what they need."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from engine.errors import EngineError
from k8s.check.report import check
from k8s.command import render as command
from k8s.manifests import build, dump, name, of_kind
from k8s.options import Options
from k8s.serve import is_serving, render
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
    (autoscaler,) = of_kind(found, "HorizontalPodAutoscaler")
    assert (autoscaler["spec"]["minReplicas"], autoscaler["spec"]["maxReplicas"]) == (2, 5)
    (deployment,) = of_kind(found, "Deployment")
    assert "replicas" not in deployment["spec"]  # the autoscaler says it


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
