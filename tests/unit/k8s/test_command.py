"""`oka k8s` as it is typed, and what it says where a program is missing."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.cli.main import commands
from engine.errors import ConfigError
from k8s import tools
from k8s.check.finding import Finding
from k8s.check.report import check
from k8s.manifests import FOLDER, Document, build, built, dump, load, of_kind
from k8s.subject import Subject


def oka(*arguments: str, stdin: str = "") -> str:
    result = CliRunner().invoke(commands, ["k8s", *arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return f"{result.exit_code}\n{result.output}"


def test_what_render_prints_passes_the_check(tmp_path: Path) -> None:
    printed = oka("render", "pipelines/word_count.py", "repeat=2", "-p", "2", "--overlay", "dev")
    code, _, text = printed.partition("\n")
    assert code == "0"
    (job,) = of_kind(load(text), "RayJob")
    assert job["spec"]["entrypoint"].startswith("oka run pipelines/word_count.py repeat=2 --config")
    path = tmp_path / "job.yaml"
    path.write_text(text, encoding="utf-8")
    assert oka("check", str(path)) == f"0\nno mistakes in {path}\n"
    path.write_text(text.replace("ClusterIP", "NodePort"), encoding="utf-8")
    noted = oka("check", str(path))
    assert noted.startswith("0\nnote: closed-services: ")
    assert f"no mistakes in {path}; 1 note\n" in noted
    path.write_text(text.replace("kind: RayJob", "kind: RayJbo"), encoding="utf-8")
    failed = oka("check", str(path))
    assert failed.startswith("1\nschema: ")
    assert f"1 mistake in {path}" in failed


@pytest.mark.parametrize(
    ("arguments", "old", "new", "found"),
    [
        ("repeat=2 -p 12 --slots 7", "", "", "nodes: "),
        ("repeat=2 -p 12", "oka-word-count\n", f"oka-{'w' * 44}\n", "name must have at most 47"),
        ("repeat=2 -p 80", "", "", "there are 12 nodes"),
        ("repeat=2", "kind: RayJob", "kind: RayJob\nkind: RayJob", "already set in map"),
        ("repeat=2", "kind: RayJob", "kind: [", "a document: "),
        ("repeat=2", "kind: RayJob", "kind: Frob", "kind Frob not found"),
    ],
)
def test_a_file_that_was_rendered_is_checked(
    tmp_path: Path, arguments: str, old: str, new: str, found: str
) -> None:
    code, _, text = oka("render", "pipelines/word_count.py", *arguments.split()).partition("\n")
    assert code == "0"
    path = tmp_path / "job.yaml"
    path.write_text(text.replace(old, new) if old else text, encoding="utf-8")
    assert found in oka("check", str(path))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "has no document, expected manifests"),
        ("# nothing\n", "has no document, expected manifests"),
        ("- a\n- b\n", "a document: failed to parse yaml"),
        ("a: 1\n", "GVK cannot be empty"),
        ("--- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, dta: {}}\n", "dta: "),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "immutable is not true"),
    ],
)
def test_what_is_no_job_is_told(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text, encoding="utf-8")
    assert found in oka("check", str(path))
    assert found in oka("check", "-", stdin=text)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    with pytest.raises(ConfigError, match=r"job\.yaml', expected a folder"):
        oka("check", str(path))
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="cannot be read, expected manifests"):
        oka("check", str(path))


def test_parts_that_are_missing_are_told(dev: list[Document]) -> None:
    pod = "spec rayClusterSpec headGroupSpec template spec"
    odd = []
    for kind, path in (
        ("PodDisruptionBudget", "spec"),
        ("RayJob", "spec"),
        ("RayJob", "spec submitterPodTemplate spec"),
        ("RayJob", "spec rayClusterSpec headGroupSpec template"),
        ("RayJob", pod),
        ("RayJob", f"{pod} containers"),
        ("RayJob", f"{pod} volumes"),
    ):
        for value in (None, {}, []):
            documents = copy.deepcopy(dev)
            part = of_kind(documents, kind)[-1]
            *keys, last = path.split()
            for key in keys:
                part = part[key]
            part[last] = value
            odd.append(Subject(f"{path}: {value}", dump(documents)))
    assert [each.name for each, said in zip(odd, check(odd), strict=True) if not said] == []


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("apiVersion", "---\napiVersion", ""),
        ("managedNodeGroups:", "---\nmanagedNodeGroups:", "failed to parse yaml"),
        ("  maxSize: 12\n  availabilityZones: [eu-central-1a]", "  maxSize: 12", "several zones"),
        ("  instanceType: c7i.2xlarge\n", "", "an instanceType is not set"),
        ("desiredCapacity: 4", "desiredCapacity: 4 nodes", "must be of type integer"),
        ("      name: oka\n", "      name:\n", "makes no role"),
    ],
)
def test_nodes_of_a_cluster_that_is_odd(tmp_path: Path, old: str, new: str, found: str) -> None:
    path = tmp_path / "eks" / "cluster.yaml"
    path.parent.mkdir()
    text = (FOLDER / "eks" / "cluster.yaml").read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    (said,) = check([Subject("eks", built(FOLDER / "overlays" / "eks"), tmp_path)])
    assert found in str(said) if found else said == []


def test_without_a_name_every_overlay_is_checked() -> None:
    assert oka("check") == "0\nno mistakes in dev, eks, eks-monitored, serving, serving-public\n"


def test_a_finding_reads_as_check_place_problem_and_hint() -> None:
    finding = Finding("RayCluster/oka", "there is none", "make one", "token")
    assert str(finding) == "token: RayCluster/oka: there is none\n  hint: make one"


def test_without_kubectl_and_kustomize(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tools, "ROOT", tmp_path)
    with pytest.raises(ConfigError, match="kustomize is not installed") as caught:
        tools.kustomize()
    assert "kubectl" in str(caught.value.hint)
    assert "make k8s-tools" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("program", "hint"), [("kubectl-validate", "make k8s-tools"), ("hadolint", "make build")]
)
def test_without_a_tool(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, hint: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tools, "ROOT", tmp_path)
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(ConfigError, match=f"{program} is not installed") as caught:
        tools.tool(program)
    assert hint in str(caught.value.hint)


def test_what_kustomize_refuses_is_told(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: [nothing.yaml]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"kustomize refuses .*nothing\.yaml"):
        build(tmp_path)
