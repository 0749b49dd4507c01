"""`oka k8s` as it is typed, and what it says where a program is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.cli import commands
from engine.errors import ConfigError
from k8s.check import tools
from k8s.check.finding import Finding
from k8s.check.report import check_repository
from k8s.manifests import build, kustomize, load
from tests.unit.k8s.broken import Documents, document


def oka(*arguments: str) -> str:
    result = CliRunner().invoke(commands, ["k8s", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return f"{result.exit_code}\n{result.output}"


def test_what_render_prints_passes_the_check(tmp_path: Path) -> None:
    printed = oka("render", "pipelines/word_count.py", "repeat=2", "-p", "7", "--overlay", "dev")
    code, _, text = printed.partition("\n")
    assert code == "0"
    job = document(load(text), "RayJob", "oka-word-count")
    assert job["spec"]["entrypoint"].startswith("oka run pipelines/word_count.py repeat=2 --config")
    path = tmp_path / "job.yaml"
    path.write_text(text, encoding="utf-8")
    assert oka("check", str(path)) == f"0\nno mistakes in {path}\n"
    path.write_text(text.replace("ClusterIP", "NodePort"), encoding="utf-8")
    failed = oka("check", str(path))
    assert failed.startswith("1\nclosed-services: ")
    assert f"1 mistake in {path}" in failed


def test_dockerfile_and_eks_have_no_mistake() -> None:
    assert check_repository() == []


def test_a_finding_reads_as_check_place_problem_and_hint() -> None:
    finding = Finding("token", "RayCluster/oka", "there is none", "make one")
    assert str(finding) == "token: RayCluster/oka: there is none\n  hint: make one"


def test_without_kubectl_and_kustomize(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("k8s.manifests.FOLDER", tmp_path / "k8s")
    with pytest.raises(ConfigError, match="neither kubectl nor kustomize") as caught:
        kustomize()
    assert "make k8s-tools" in str(caught.value.hint)


def test_without_kubeconform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tools, "FOLDER", tmp_path / "k8s")
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(ConfigError, match="kubeconform is not installed") as caught:
        tools.tool("kubeconform")
    assert "Go" in str(caught.value.hint)


def test_what_kustomize_refuses_is_told(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: [nothing.yaml]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"kustomize refuses .*nothing\.yaml"):
        build(tmp_path)


def test_both_overlays_say_that_the_token_is_a_secret(dev: Documents, eks: Documents) -> None:
    for documents in (dev, eks):
        spec = document(documents, "RayCluster")["spec"]
        assert spec["authOptions"] == {"mode": "token", "secretName": "oka-ray-token"}
        assert not [each for each in documents if each["kind"] == "Secret"]
