"""What `oka k8s render` is asked for beside a size: a job's lifetime, its pods, and refusals."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from engine.errors import ConfigError, EngineError
from k8s.check.report import check
from k8s.jobs import parsed
from k8s.manifests import Pod, clusters, dump, of_kind, pods
from k8s.options import Options
from k8s.render import render
from k8s.subject import Subject

Documents: TypeAlias = list[dict[str, Any]]

WORD_COUNT = "pipelines/word_count.py repeat=20"
PREFIX = "s3://oka-models-example/checkpoints/a"
KEPT = f"{WORD_COUNT} --checkpoints {PREFIX}"
LATEST = f"{KEPT} --resume latest"


def rendered(documents: Documents, command: str, **options: Any) -> Documents:
    return render(documents, parsed(shlex.split(command)), options=Options(**options))


def job_of(documents: Documents) -> dict[str, Any]:
    (job,) = of_kind(documents, "RayJob")
    found: dict[str, Any] = job["spec"]
    return found


def settings(documents: Documents) -> dict[str, Any]:
    (config_map,) = of_kind(documents, "ConfigMap")
    (text,) = config_map["data"].values()
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def budgets(documents: Documents) -> dict[str, int]:
    found = of_kind(documents, "PodDisruptionBudget")
    assert {each["spec"]["unhealthyPodEvictionPolicy"] for each in found} == {"AlwaysAllow"}
    return {each["metadata"]["name"]: each["spec"]["minAvailable"] for each in found}


def of_ray(documents: Documents) -> list[Pod]:
    return [each for each in pods(documents) if each.group is not None]


def container(pod: Pod) -> dict[str, Any]:
    found: dict[str, Any] = pod.spec["containers"][0]
    return found


def test_whatever_is_rendered_passes_the_check(eks: Documents, dev: Documents) -> None:
    gpus = """ -p 4 --set 'resources={"*": {"gpus": 1, "operator_slot": 1}}'"""
    variables = {"env": ["A=b"], "env_from": ["credentials"]}
    found = [
        rendered(eks, WORD_COUNT, **variables, image="host:5000/oka", priority="high"),
        rendered(eks, KEPT, endless=True, spare=2, spot=True, tolerations=["team=a:NoSchedule"]),
        rendered(eks, LATEST, deadline=7200, retries=3),
        rendered(eks, f"{KEPT} --resume before-upgrade", retries=0),
        rendered(eks, WORD_COUNT + gpus, gpu=2),
        rendered(dev, f"{WORD_COUNT} -p 2", namespace="mine"),
    ]
    subjects = [Subject(str(n), dump(each), scaled=True) for n, each in enumerate(found)]
    assert [str(said) for each in check(subjects) for said in each if not said.is_note] == []


def test_a_job_without_end_is_run_again_from_its_last_checkpoint(eks: Documents) -> None:
    found = rendered(eks, KEPT, endless=True)
    job = job_of(found)
    assert "activeDeadlineSeconds" not in job
    assert job["backoffLimit"] == job["submitterConfig"]["backoffLimit"] == 100
    assert (settings(found)["checkpoints"], settings(found)["resume"]) == (PREFIX, "latest")
    # One pod at a time may be evicted, and the submitter in any case.
    assert budgets(found) == {"oka-word-count": 4}


def test_a_job_without_checkpoints_keeps_all_of_its_pods(eks: Documents) -> None:
    found = rendered(eks, WORD_COUNT)
    assert budgets(found) == {"oka-word-count": 5, "oka-word-count-submitter": 1}
    assert job_of(found)["activeDeadlineSeconds"] == 1800


def test_a_job_that_ends_may_have_checkpoints(eks: Documents) -> None:
    found = rendered(eks, LATEST, deadline=7200, retries=3)
    job = job_of(found)
    assert (job["activeDeadlineSeconds"], job["backoffLimit"]) == (7200, 3)
    assert job["submitterConfig"]["backoffLimit"] == 10
    assert budgets(found) == {"oka-word-count": 4}


def test_from_a_savepoint_once(eks: Documents) -> None:
    found = rendered(eks, f"{KEPT} --resume before-upgrade", retries=0)
    job = job_of(found)
    assert job["backoffLimit"] == job["submitterConfig"]["backoffLimit"] == 0


@pytest.mark.parametrize(
    ("command", "options", "message", "hint"),
    [
        (KEPT, {}, "resume is None and the job is run again once", "--resume latest"),
        (KEPT, {"retries": 5}, "resume is None and the job is run again 5 times", "--resume"),
        (f"{KEPT} --resume 7", {}, "resume is '7' and the job is run again once", "--retries 0"),
        (f"{KEPT} --resume 7", {"endless": True}, "resume is '7' and", "--resume latest"),
        (WORD_COUNT, {"endless": True}, "--endless and checkpoints is None", "--checkpoints s3"),
        (WORD_COUNT, {"spot": True}, "--spot and checkpoints is None", "--checkpoints s3"),
        (KEPT, {"endless": True, "deadline": 60}, "--endless and --deadline 60", "no deadline"),
        (
            f"{WORD_COUNT} --checkpoints /home/oka/kept --resume latest",
            {},
            "checkpoints is '/home/oka/kept', expected s3://",
            "PersistentVolumeClaim",
        ),
        (f"{WORD_COUNT} --checkpoints /kept", {"endless": True}, "it goes with the pod", "mount"),
        (WORD_COUNT, {"gpu": 1}, "--gpu is 1 and no task asks for a GPU", "gpus"),
        (WORD_COUNT, {"env": ["A"]}, "--env is 'A', expected NAME=VALUE", ""),
        (WORD_COUNT, {"env": ["A=1", "A=2"]}, "A is given twice", ""),
        (WORD_COUNT, {"env": ["1A=2"]}, "--env names '1A', expected letters", "NAME=VALUE"),
        (WORD_COUNT, {"env": ["RAY_AUTH_MODE=token"]}, "--env names RAY_AUTH_MODE", "KubeRay"),
        (WORD_COUNT, {"env_from": ["A b"]}, "--env-from is 'A b', expected lower case", ""),
        (WORD_COUNT, {"namespace": "Mine"}, "--namespace is 'Mine', expected lower case", ""),
        (WORD_COUNT, {"image": "a b"}, "--image is 'a b', expected such as registry", ""),
        (WORD_COUNT, {"tolerations": ["a=b:Never"]}, "--toleration is 'a=b:Never'", "NoSchedule"),
        (WORD_COUNT, {"tolerations": ["=b"]}, "--toleration is '=b'", "kubectl taint"),
        (WORD_COUNT, {"replicas": 3}, "--replicas is for a pipeline that serves", "--spare"),
        (WORD_COUNT, {"host": "a.b"}, "--host is for a pipeline that serves", "--spare"),
    ],
)
def test_what_would_break_the_job_is_refused(
    eks: Documents, command: str, options: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(EngineError) as caught:
        rendered(eks, command, **options)
    assert isinstance(caught.value, ConfigError)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def test_a_folder_of_a_volume_that_pods_share_is_kept(eks: Documents) -> None:
    for each in of_ray(eks):
        spec: Any = each.spec
        claim = {"name": "kept", "persistentVolumeClaim": {"claimName": "kept"}}
        spec["volumes"] = [*spec["volumes"], claim]
        container(each)["volumeMounts"].append({"name": "kept", "mountPath": "/kept"})
    found = rendered(eks, f"{WORD_COUNT} --checkpoints /kept/a", endless=True)
    assert settings(found)["checkpoints"] == "/kept/a"


def test_spare_pods(eks: Documents) -> None:
    found = rendered(eks, KEPT, endless=True, spare=2)
    (cluster,) = clusters(found)
    assert {each.name: each.replicas for each in cluster.groups} == {
        "head": 1,
        "operators": 6,
        "loaders": 0,
    }
    assert budgets(found) == {"oka-word-count": 6}


def test_variables_are_those_of_the_pods_of_ray(eks: Documents) -> None:
    found = rendered(eks, WORD_COUNT, env=["A=b=c", "DRAIN_SECONDS=30"], env_from=["credentials"])
    for each in pods(found):
        has = {"name": "A", "value": "b=c"} in container(each)["env"]
        assert has == (each.group is not None)  # the submitter runs nothing of the job
        if has:
            assert [e for e in container(each)["env"] if e["name"] == "DRAIN_SECONDS"] == [
                {"name": "DRAIN_SECONDS", "value": "30"}
            ]
            assert container(each)["envFrom"] == [{"secretRef": {"name": "credentials"}}]


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("host:5000/oka", "host:5000/oka:0.1.0-ray2.60.0"),
        ("host/oka:0.2.0-ray2.60.0", "host/oka:0.2.0-ray2.60.0"),
    ],
)
def test_all_pods_have_the_image(eks: Documents, image: str, expected: str) -> None:
    found = rendered(eks, WORD_COUNT, image=image)
    assert {container(each)["image"] for each in pods(found)} == {expected}


def test_another_namespace(dev: Documents) -> None:
    found = rendered(dev, f"{WORD_COUNT} -p 2", namespace="mine")
    names = {each["metadata"].get("namespace") for each in found if each["kind"] != "Namespace"}
    assert names == {"mine"}
    assert [each["metadata"]["name"] for each in of_kind(found, "Namespace")] == ["mine"]


def test_class_and_tolerations_of_all_pods(eks: Documents) -> None:
    taints = ["team=a:NoSchedule", "gone", "slow:NoExecute"]
    found = rendered(eks, WORD_COUNT, priority="high", tolerations=taints)
    added = [
        {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"},
        {"key": "gone", "operator": "Exists"},
        {"key": "slow", "operator": "Exists", "effect": "NoExecute"},
    ]
    for each in pods(found):
        assert each.spec["priorityClassName"] == "high"
        assert each.spec["tolerations"][-3:] == added


def test_a_pod_of_ray_leaves_a_node_that_is_gone_soon(eks: Documents) -> None:
    for each in of_ray(rendered(eks, WORD_COUNT)):
        seconds = {t["key"]: t["tolerationSeconds"] for t in each.spec["tolerations"]}
        assert seconds == {"node.kubernetes.io/unreachable": 20, "node.kubernetes.io/not-ready": 20}


def test_workers_prefer_spot_nodes_and_the_head_does_not(eks: Documents) -> None:
    found = rendered(eks, KEPT, endless=True, spot=True)
    for each in of_ray(found):
        preferred = "nodeAffinity" in each.spec["affinity"]
        tolerated = {t["key"] for t in each.spec["tolerations"]}
        assert preferred == ("cloud.google.com/gke-spot" in tolerated)
        assert preferred == (each.group is not None and each.group.name != "head")
        assert "podAntiAffinity" in each.spec["affinity"]


def test_gpus_of_pods_are_those_that_tasks_ask_for(eks: Documents) -> None:
    command = WORD_COUNT + """ -p 4 --set 'resources={"*": {"gpus": 1, "operator_slot": 1}}'"""
    found = rendered(eks, command, gpu=2)
    (cluster,) = clusters(found)
    operators = cluster.groups[1]
    assert operators.ray_resources["gpus"] == 2
    assert operators.container["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert operators.replicas == 4  # 8 tasks, 2 on a pod: a pod has tasks of one operator
    head = cluster.groups[0]
    assert "nvidia.com/gpu" not in head.container["resources"]["limits"]


def test_a_file_of_settings_wins_over_the_overlay_and_options_over_it(
    eks: Documents, tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"parallelism: 4\nbatch_size: 50\ncheckpoints: {PREFIX}\nresume: latest\n")
    found = rendered(eks, f"{WORD_COUNT} --config {file} --batch-size 70")
    assert settings(found)["port_range"] == "20000-20999"  # the overlay's
    assert settings(found)["parallelism"] == 4
    assert settings(found)["batch_size"] == 70
    assert settings(found)["checkpoints"] == PREFIX
    assert budgets(found) == {"oka-word-count": 3 - 1}
    file.write_text("paralelism: 4\n")
    with pytest.raises(ConfigError, match="unknown setting 'paralelism'"):
        rendered(eks, f"{WORD_COUNT} --config {file}")
