"""Manifests in a job's size: what `oka k8s render` prints."""

from __future__ import annotations

import re
import shlex
from typing import Any, TypeAlias

import pytest
import yaml

from engine.config import JobConfig
from engine.errors import ConfigError, PlacementError
from k8s.check.report import check
from k8s.jobs import jobs, parsed
from k8s.manifests import build, clusters, component, dump, load, name, of_kind
from k8s.render import render
from k8s.subject import Subject

Documents: TypeAlias = list[dict[str, Any]]

WORD_COUNT = "pipelines/word_count.py repeat=20"


def rendered(documents: Documents, command: str, slots: int | None = None) -> Documents:
    return render(documents, parsed(shlex.split(command)), slots)


def mistakes(*jobs: Documents) -> list[str]:
    """What the check finds in each of these manifests."""
    subjects = [Subject(str(n), dump(documents), scaled=True) for n, documents in enumerate(jobs)]
    return [str(finding) for found in check(subjects) for finding in found]


def document(documents: Documents, kind: str, wanted: str) -> dict[str, Any]:
    (found,) = [each for each in documents if name(each) == f"{kind}/{wanted}"]
    return found


def groups(documents: Documents) -> dict[str, int]:
    (cluster,) = clusters(documents)
    return {group.name: group.replicas for group in cluster.groups}


def mounts(job: dict[str, Any]) -> str:
    volumes = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["volumes"]
    (found,) = [each["configMap"]["name"] for each in volumes if "configMap" in each]
    return str(found)


def settings(documents: Documents, job: str) -> dict[str, Any]:
    (config_map,) = of_kind(documents, "ConfigMap")
    found: dict[str, Any] = yaml.safe_load(config_map["data"][f"{job}.yaml"])
    return found


@pytest.mark.parametrize("overlay", ["dev", "eks"])
def test_committed_sizes_are_those_that_render_computes(
    overlay: str, request: pytest.FixtureRequest
) -> None:
    committed: Documents = request.getfixturevalue(overlay)
    for job in jobs(committed):
        words = list(job.words)
        at = words.index("--config")
        del words[at : at + 2]
        again = rendered(committed, shlex.join(words))
        (config_map,) = of_kind(again, "ConfigMap")
        (mounted,) = [path for path in job.files if component(config_map) in path]
        written = JobConfig.of(yaml.safe_load(job.files[mounted]))
        assert JobConfig.of(settings(again, str(component(config_map)))) == written
        again.remove(config_map)
        text = dump(again).replace(config_map["metadata"]["name"], mounts(job.document))
        assert [document(committed, *name(each).split("/")) for each in again] == load(text)


def test_only_what_the_job_needs_is_printed(eks: Documents) -> None:
    found = rendered(eks, WORD_COUNT)
    assert {component(each) for each in found} == {None, "word-count"}
    assert [name(each) for each in of_kind(found, "RayJob")] == ["RayJob/oka-word-count"]
    assert not of_kind(found, "RayCluster")


def test_another_size(eks: Documents) -> None:
    found = rendered(eks, f"{WORD_COUNT} --parallelism 30 --batch-size 100")
    assert groups(found) == {"head": 1, "operators": 10, "loaders": 0}
    assert document(found, "PodDisruptionBudget", "oka-word-count")["spec"]["minAvailable"] == 11
    own = settings(found, "word-count")
    own.pop("native", None)  # all tests may run with another one
    assert own == {
        "runtime": "ray",
        "parallelism": 30,
        "batch_size": 100,
        "placement": "operator_first",
        "strict_placement": True,
        "port_range": "20000-20999",
        "metrics_port": 9464,
        "metrics_host": "0.0.0.0",
        "resources": {"*": {"operator_slot": 1}},
    }
    assert mistakes(found) == []


def test_other_slots_change_memory_and_cpus(eks: Documents) -> None:
    found = rendered(eks, f"{WORD_COUNT} --parallelism 30", slots=15)
    assert groups(found) == {"head": 1, "operators": 4, "loaders": 0}
    limits = clusters(found)[0].groups[1].container["resources"]["limits"]
    assert (limits["cpu"], limits["memory"]) == ("16", "12Gi")
    assert any("asks for 16 CPUs" in each for each in mistakes(found))  # nodes have 8


def test_settings_that_only_set_knows(eks: Documents) -> None:
    found = rendered(eks, f"{WORD_COUNT} --set linger_ms=2 --set channel_window_bytes=33554432")
    assert settings(found, "word-count")["linger_ms"] == 2
    limits = clusters(found)[0].groups[1].container["resources"]["limits"]
    assert limits["memory"] == "10Gi"  # 8Gi with windows of 1 MiB


def test_a_pipeline_that_the_overlay_does_not_have(eks: Documents) -> None:
    found = rendered(eks, "pipelines/word_count.py:random_word_count seconds=5 -p 2")
    job = document(found, "RayJob", "oka-random-word-count")
    assert job["spec"]["entrypoint"] == (
        "oka run pipelines/word_count.py:random_word_count seconds=5 "
        "--config /etc/oka/random-word-count.yaml"
    )
    assert groups(found) == {"head": 1, "operators": 2, "loaders": 0}
    assert document(found, "PodDisruptionBudget", "oka-random-word-count")["spec"] == {
        "minAvailable": 3,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {
            "matchLabels": {
                "app.kubernetes.io/component": "random-word-count",
                "ray.io/is-ray-node": "yes",
            }
        },
    }
    assert mistakes(found) == []


def test_jobs_that_are_rendered_one_after_the_other_leave_each_other_alone(eks: Documents) -> None:
    jobs = [
        rendered(eks, f"{WORD_COUNT} --parallelism 24"),
        rendered(eks, "pipelines/word_count.py:random_word_count seconds=60 -p 12", slots=4),
        rendered(eks, "pipelines/model_broadcast.py model=digits loaders=3 placement=resources"),
        render(eks, parsed(shlex.split(f"{WORD_COUNT} --parallelism 12")), job_name="nightly"),
    ]
    assert mistakes(*jobs) == []
    applied: dict[tuple[str, str], dict[str, Any]] = {}
    for documents in jobs:
        for each in documents:
            key = (each["kind"], each["metadata"]["name"])
            assert applied.setdefault(key, each) == each  # what is there stays as it is
    for documents, parallelism in zip(jobs, (24, 12, None, 12), strict=True):
        (job,) = of_kind(documents, "RayJob")
        mounted = applied["ConfigMap", mounts(job)]
        assert mounted["immutable"] is True
        assert component(mounted) == component(job)
        text = mounted["data"][f"{component(job)}.yaml"]
        assert yaml.safe_load(text).get("parallelism") == parallelism
    # Together they are valid, too: no policy, budget or name of one is in the way of another.
    assert mistakes(list(applied.values())) == []


def test_another_content_is_another_config_map(eks: Documents) -> None:
    names = [mounts(of_kind(rendered(eks, f"{WORD_COUNT} -p {n}"), "RayJob")[0]) for n in (1, 2, 1)]
    assert names[0] == names[2] != names[1]
    assert all(re.fullmatch(r"oka-word-count-[0-9a-f]{10}", each) for each in names)


@pytest.mark.parametrize("wrong", ["", "A", "x" * 44, "cluster", "-x", "a.b"])
def test_a_name_that_kuberay_would_not_take(eks: Documents, wrong: str) -> None:
    with pytest.raises(ConfigError, match="name is") as caught:
        render(eks, {"target": f"pipelines/x.py:{wrong or '_'}", "arguments": ()}, job_name=wrong)
    assert "--name" in str(caught.value.hint)


def test_more_loaders_have_more_pods(eks: Documents) -> None:
    command = "pipelines/model_broadcast.py model=digits loaders=7 placement=resources"
    assert groups(rendered(eks, command)) == {"head": 1, "operators": 1, "loaders": 7}


def test_tasks_that_no_pod_can_take(eks: Documents) -> None:
    with pytest.raises(PlacementError, match="gpus"):
        rendered(eks, WORD_COUNT + """ --set 'resources={"*": {"gpus": 1}}'""")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (f"{WORD_COUNT} --config x.yaml", "config file x.yaml cannot be read"),
        (f"{WORD_COUNT} --set x", "--set is 'x', expected NAME=VALUE"),
        (f"{WORD_COUNT} --parallelism 0", "parallelism is 0"),
        ("pipelines/no.py", "pipeline file 'pipelines/no.py' does not exist"),
    ],
)
def test_wrong_use(eks: Documents, command: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        rendered(eks, command)


def test_an_overlay_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="overlay is 'prod'") as caught:
        build("prod")
    assert "dev, eks" in str(caught.value.hint)


def test_what_is_printed_is_what_was_rendered(eks: Documents) -> None:
    assert load(dump(eks)) == eks
