"""The first hour of a new user: what README says, as an ordinary user, from a fresh clone.

The clone of the last commit, and a project beside it, are in a folder whose path has a space. All
is done in a bare environment: nothing is installed but what README asks for. Root becomes another
user, and lends that one the Rust toolchain. It needs the network, 8 GB and the better part of an
hour, most of it for building and for `make test`. Run it with `make first-hour`.
"""

from __future__ import annotations

import argparse
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.first_hour import readme

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Step:
    """A command in bash, in one of the user's folders."""

    folder: Path
    command: str


class User:
    """An ordinary user: oneself, or the one that root becomes."""

    def __init__(self, name: str, home: Path) -> None:
        self.is_other = os.getuid() == 0
        self.account = pwd.getpwnam(name) if self.is_other else pwd.getpwuid(os.getuid())
        self._home = home

    def give(self, folder: Path) -> None:
        """Make the folder and all in it the user's."""
        if self.is_other:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, self.account.pw_uid, self.account.pw_gid, follow_symlinks=False)

    def run(self, step: Step, programs: str) -> int:
        """The exit status of the step; its output is shown."""
        kept = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)}
        kept |= {"HOME": str(self._home), "USER": self.account.pw_name, "PATH": programs}
        other = {"user": self.account.pw_uid, "group": self.account.pw_gid, "extra_groups": ()}
        return subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", step.command],
            cwd=step.folder,
            env=kept | {"LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            umask=0o022,
            check=False,
            **(other if self.is_other else {}),  # type: ignore[call-overload]
        ).returncode


def main() -> None:
    """Do all steps until one fails; says which, how long each took, and what disk they needed."""
    options = _options()
    base = Path(options.folder or tempfile.mkdtemp(prefix="oka-first-", dir="/var/tmp"))
    base.mkdir(exist_ok=True)
    base.chmod(0o755)
    home, hour = base / "home", base / "first hour"
    user = User(options.user, home)
    for folder in (home, hour, hour / "my project"):
        folder.mkdir(exist_ok=True)
        user.give(folder)
    clone = hour / "oka"
    if not clone.exists():
        subprocess.run(["git", "clone", "--quiet", "--no-local", str(ROOT), str(clone)], check=True)
        user.give(clone)
    for name, program in _programs(clone).items():
        (hour / "my project" / name).write_text(program)
    programs = os.pathsep.join(
        [str(_toolchain(base)), "/usr/local/go/bin", "/usr/local/bin", os.defpath]
    )
    failed = False
    for step in steps(clone, hour / "my project", whole=not options.short):
        print(f"\n=== {step.folder.name}: {step.command}", flush=True)
        started = time.monotonic()
        status = user.run(step, programs)
        gigabytes = _bytes(clone) / 1e9
        print(
            f"=== status {status}, {time.monotonic() - started:.0f} s; "
            f"the clone has {gigabytes:.1f} GB"
        )
        if status != 0:
            failed = True
            break
    if options.folder is None and not failed:
        shutil.rmtree(base)
    else:
        print(f"it is all in {base}")
    sys.exit(failed)


def steps(clone: Path, project: Path, whole: bool) -> Iterator[Step]:
    """What README says, in its order. The commands are README's own."""
    said = readme.commands(*(clone / page for page in readme.COMMANDS))
    commands = [re.sub(r"\s+# .*", "", command) for command in said]
    activate = next(command for command in commands if command.startswith("source "))
    yield Step(clone, _one(commands, "make wordcount"))
    yield Step(clone, f"{activate}; oka --version; oka --help > /dev/null")
    yield Step(clone, _one(commands, "make s3-server"))

    for name in _programs(clone):
        yield Step(project, f"source ../oka/{activate.split()[1]}; {_served(commands, name)}")
    for command in commands:
        if re.match(r"oka (run|plan) (?!FILE)", command):
            ended = _interrupted(command) if "online_inference" in command else command
            yield Step(clone, f"{activate}; cp '{project}/first.py' .; {ended}; rm first.py")
    yield Step(clone, f"{activate}; oka run '{project}/first.py' --runtime ray --parallelism 2")

    install, wheel = (c for c in commands if re.match(r"pip install ['\"](/path|\$)", c))
    if whole:
        yield Step(clone, _one(commands, "make wheel"))
        for number, command in enumerate((install, wheel)):
            its_own = command.replace("/path/to/oka", str(clone))
            yield from _own_project(project, f"venv {number}", its_own, commands)
        yield Step(clone, _one(commands, "make test"))


def _interrupted(command: str) -> str:
    """The command of a pipeline that serves, and Ctrl-C after a while: its status says so."""
    ended = f"timeout --signal INT --preserve-status 20 {command} || status=$?"
    return f"status=0; {ended}; [ $status = 130 ]"


def _programs(clone: Path) -> dict[str, str]:
    """Programs of README and of what it leads to, by the names of their files."""
    programs = readme.programs(*(clone / page for page in readme.PROGRAMS))
    return {f"program_{n}.py" if n else "first.py": text for n, text in enumerate(programs)}


def _own_project(folder: Path, venv: str, install: str, commands: list[str]) -> Iterator[Step]:
    """A project with an environment of its own, into which Oka is installed."""
    activate = f"source '{venv}/bin/activate'"
    yield Step(folder, f"python3 -m venv '{venv}'; {activate}; {install}")
    yield Step(folder, f"{activate}; python first.py; oka run first.py --runtime ray -p 2")
    extra = next(command for command in commands if "'oka-streams[" in command)
    yield Step(folder, f"{activate}; {extra}; pip show oka-streams; ! pip show oka")


def _served(commands: list[str], program: str) -> str:
    """Run the program, with the S3 server that README starts."""
    serve = next(command for command in commands if command.startswith("oka s3 serve"))
    return (
        f"{serve} --port 0 > served & server=$!; trap 'kill $server' EXIT; "
        "until grep -q AWS_REGION served; do sleep 0.2; done; source <(grep ^export served); "
        f"python {program}"
    )


def _one(commands: list[str], command: str) -> str:
    assert command in commands, f"README does not say {command!r} any more"
    return command


def _toolchain(base: Path) -> Path:
    """Where cargo and rustc are; a copy, where the user could not read them."""
    asked = subprocess.run(
        ["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True
    )
    sysroot = Path(asked.stdout.strip())
    if os.getuid() != 0:
        return sysroot / "bin"
    lent = base / "rust"
    if not lent.exists():
        shutil.copytree(sysroot, lent, symlinks=True, ignore=shutil.ignore_patterns("doc"))
    return lent / "bin"


def _bytes(folder: Path) -> int:
    """What `du` says."""
    said = subprocess.run(
        ["du", "-s", "-B1", str(folder)], capture_output=True, text=True, check=False
    )
    return int(said.stdout.split()[0])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m tests.first_hour", description=__doc__)
    parser.add_argument(
        "--folder", help="do it there, go on with a clone that is there, and keep it"
    )
    parser.add_argument("--user", default="nobody", help="whom root becomes [nobody]")
    parser.add_argument("--short", action="store_true", help="no installations and no make test")
    return parser.parse_args()


_KEPT = re.compile(
    r"PIP_(CERT|INDEX_URL|FIND_LINKS|DEFAULT_TIMEOUT)|GOPROXY|SSL_CERT_FILE|.*_proxy"
)
"""What the network of this machine may need."""

if __name__ == "__main__":
    main()
