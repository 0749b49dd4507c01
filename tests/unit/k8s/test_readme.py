"""The commands of k8s/README.md: bash runs all of them, and each one's own program reads it.

Programs stand in for those that would reach out: they have the real one read the command, where it
is installed, and then answer. So a variable that no step sets, a file that is not there, an option
or a combination that a program refuses fails the test.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from k8s.check.nodes import demand, pods_of
from k8s.check.report import check_folder
from k8s.manifests import FOLDER, component
from k8s.subject import Subject
from tests.unit.k8s.api_server import api_server

README = (FOLDER / "README.md").read_text(encoding="utf-8")
PROGRAMS = ("aws", "docker", "eksctl", "helm", "kubectl", "minikube")
STAND_IN = """#!/usr/bin/env python3
import os, subprocess, sys
program, words = os.path.basename(sys.argv[0]), sys.argv[1:]
real = os.environ["REAL_" + program]
open(os.environ["LOG"], "a").write(f"{program} {words}\\n")
if program == "aws" and words[0] != "s3" and words[1] != "get-login-password":
    # sts makes an example that it then refuses
    words += ["--generate-cli-skeleton", "input" if words[0] == "sts" else "output"]
elif program == "aws":
    pass
elif program != "kubectl":
    words.append("--help")
elif words[0] in ("apply", "create"):
    words += ["--dry-run=client", *(["--validate=false"] if words[0] == "apply" else [])]
elif words[0] in ("drain", "taint"):
    words.append("--dry-run=client")
elif words[0] == "exec":
    subprocess.run([*words[words.index("--") + 1:], "--help"], check=True, stdout=sys.stderr)
    words = [*words[:words.index("--")], "--help"]
given = sys.stdin.read() if "-" in words or "--password-stdin" in words else ""
if real:
    read = subprocess.run([real, *words], input=given, text=True, capture_output=True)
    sys.stderr.write(read.stderr)
    if read.returncode:
        sys.exit(f"{program} refuses {sys.argv[1:]}")
    if words[0] == "kustomize":  # for oka k8s render
        sys.exit(print(read.stdout))
print("xxxx")
"""


def blocks(text: str) -> list[str]:
    """Indented commands, and those in a sentence or a table, in order."""
    found = re.findall(r"(?:(?<=\n\n)|(?<=\A))((?: {4,}\S.*\n|\n(?= {4}))+)", text)
    inline = rf"`((?:[A-Z_]+=\$\()?(?:{'|'.join(PROGRAMS)}) [^`]+ [^`]+)`"
    told = re.findall(inline, text.replace("\\|", "|"))
    return [*found, *(" ".join(each.split()) + "\n" for each in told)]


class Shell:
    """Runs commands in a copy of the repository, with stand-ins for what would reach out."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.log = folder, folder / "log"
        copied = shutil.ignore_patterns("__pycache__")
        shutil.copytree(FOLDER, folder / "k8s", ignore=copied)
        shutil.copytree(FOLDER.parent / "pipelines", folder / "pipelines", ignore=copied)
        shutil.copy(FOLDER.parent / "Dockerfile", folder)
        (folder / "models" / "mine").mkdir(parents=True)
        (folder / "models" / "mine" / "weights").write_bytes(b"0")
        (folder / "bin").mkdir()
        for program in PROGRAMS:
            stand_in = folder / "bin" / program
            stand_in.write_text(STAND_IN, encoding="utf-8")
            stand_in.chmod(0o755)
        cluster = {"name": "x", "cluster": {"server": address}}
        context = {"name": "x", "context": {"cluster": "x", "user": "x"}}
        config = {"clusters": [cluster], "contexts": [context], "current-context": "x"}
        (folder / "config").write_text(json.dumps(config), encoding="utf-8")
        self.environment = {
            "PATH": f"{folder}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder), "KUBECONFIG": str(folder / "config"), "LOG": str(self.log),
            "AWS_ENDPOINT_URL_S3": address, "AWS_ENDPOINT_URL_ECR": address, "AWS_PAGER": "",
            "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x",
            **{f"REAL_{program}": shutil.which(program) or "" for program in PROGRAMS},
        }  # fmt: skip

    def run(self, script: str) -> str:
        """What bash says of it, and its status."""
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], cwd=self.folder, env=self.environment,
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        return f"{ended.returncode}\n{ended.stdout}{ended.stderr}"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with api_server() as address:
        yield Shell(tmp_path_factory.mktemp("readme"), address)


@pytest.mark.timeout(900)
def test_all_commands_can_be_run_one_after_the_other(shell: Shell) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed, which builds what `oka k8s render` prints")
    script = "".join(blocks(README))
    for command in (
        "eksctl create cluster",
        "aws s3 mb",
        "describe-cluster",
        "kubectl logs",
        "HEAD=",
    ):
        assert command in script
    said = shell.run(script)
    assert said.startswith("0\n"), said
    log = shell.log.read_text(encoding="utf-8")
    assert {line.split()[0] for line in log.splitlines()} == set(PROGRAMS)
    assert "'delete-vpc-endpoints'" in log
    # What the commands have edited is sound, and has the names that were chosen.
    assert [str(each) for each in check_folder(shell.folder / "k8s")] == []
    eks = (shell.folder / "k8s/eks/cluster.yaml").read_text(encoding="utf-8")
    assert "arn:aws:s3:::YOUR-BUCKET/models/*" in eks


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("kubectl get rayjob,pods -n oka -w", "you may only specify a single resource type"),
        ("kubectl get podz -n oka", "doesn't have a resource type"),
        ("kubectl logs -n oka --tial=-1 -l a=b", "unknown flag: --tial"),
        ("aws ec2 create-vpc-endpoint --region x --vpc-idd y", "required: --vpc-id"),
        ("docker build --platfrom linux/amd64 .", "unknown flag: --platfrom"),
        ("oka k8s render pipelines/word_count.py --paralelism 2", "No such option"),
        ("echo $NOBODY_SETS_THIS", "unbound variable"),
    ],
)
def test_a_command_with_a_mistake_is_refused(shell: Shell, command: str, message: str) -> None:
    if not (shutil.which(command.split()[0]) or command.startswith("oka")):
        pytest.skip(f"{command.split()[0]} is not installed")
    said = shell.run(command)
    assert not said.startswith("0\n")
    assert message in said


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_program_itself_has_read_its_commands(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed: only bash has seen its commands")


def test_another_region_reaches_the_cluster(shell: Shell, tmp_path: Path) -> None:
    copy = tmp_path / "k8s"
    shutil.copytree(FOLDER, copy)
    (sed,) = re.findall(r"^ +(sed .*cluster\.yaml)$", README, re.MULTILINE)
    subprocess.run(["bash", "-c", f"REGION=us-west-2 BUCKET=b; {sed}"], cwd=tmp_path, check=True)
    eks = yaml.safe_load((copy / "eks" / "cluster.yaml").read_text(encoding="utf-8"))
    assert eks["metadata"]["region"] == "us-west-2"
    assert "eu-central-1" not in json.dumps(eks)
    assert check_folder(copy) == []


def test_the_sizes_of_jobs_are_those_of_the_manifests() -> None:
    rows = []
    for overlay in ("dev", "eks"):
        subject = Subject.of_overlay(FOLDER / "overlays" / overlay)
        for cluster in subject.clusters:
            pods = pods_of(subject, cluster.document)
            total = {key: sum(demand(pod)[key] for pod in pods) for key in demand(pods[0])}
            cpus, memory, disk = total.values()
            sizes = f"{len(pods)} | {cpus:g} | {memory / 2**30:g} GiB | {disk / 2**30:g} GiB"
            rows.append(f"| `{overlay}` | `{component(cluster.document)}` | {sizes} |")
    assert "\n".join(rows) in README, "\n".join(rows)
