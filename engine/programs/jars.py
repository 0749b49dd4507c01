"""Programs of the JVM: their jars, fetched once by Maven, and the `java` that runs them."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.errors import ConfigError, StartError
from engine.installation.cached import cached
from engine.programs.beside import Beside


def java() -> str:
    """The program `java` of JAVA_HOME, or of the PATH; raises ConfigError where there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    if found := found or shutil.which("java"):
        return found
    raise ConfigError(
        "there is no `java`, in JAVA_HOME or on the PATH",
        "install Java 17 or newer, such as Debian's package openjdk-17-jre-headless",
    )


def jars(name: str, artifacts: Sequence[str], tell: Callable[[str], None]) -> Path:
    """The folder of these artifacts, GROUP:ARTIFACT:VERSION, and of all that they need.

    It is in the user's cache folder and has this name. Maven fetches what is missing from where the
    user's settings say; `tell` is given a line of progress now and then. Raises ConfigError where
    there is no Maven, StartError where it fails.
    """
    return cached(name, lambda folder: _fetch(name, artifacts, folder, tell))


def _fetch(name: str, artifacts: Sequence[str], folder: Path, tell: Callable[[str], None]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ConfigError(
            f"the jars of {name} are to be fetched, but there is no `mvn` on the PATH",
            "install Maven, such as Debian's package maven",
        )
    project = folder / "pom.xml"
    project.write_text(_PROJECT.format(dependencies="".join(map(_dependency, artifacts))))
    command = [maven, "--batch-mode", "--file", str(project), *_at_home()]
    command += [_COPY, f"-DoutputDirectory={folder}"]
    environment = {"MAVEN_OPTS": f"{os.environ.get('MAVEN_OPTS', '')} -XX:-UsePerfData"}
    started, fetched, said = time.monotonic(), 0, ""
    with tempfile.TemporaryFile() as errors:
        maven_runs = Beside(command, errors, leftover=folder, environment=environment)
        ended = False
        try:
            for line in maven_runs.lines():
                said = said or line if "[ERROR]" in line else said
                ended = ended or "BUILD SUCCESS" in line
                fetched += "Downloaded from" in line and ".jar" in line
                seconds = time.monotonic() - started
                tell(f"fetching {name} by Maven: {fetched} jars, {seconds:.0f} s")
            if not ended:
                errors.seek(0)
                said = said or errors.read().decode(errors="replace") or "it said nothing"
                raise StartError(
                    f"Maven could not fetch the jars of {name}: {said.strip()}",
                    "can this machine reach the repository that Maven's settings.xml names?",
                )
        except BaseException:
            maven_runs.kill()
            raise
        maven_runs.release()
    project.unlink()


def _at_home() -> list[str]:
    """Options that have Maven use $HOME, where the user's entry in passwd has another folder.

    Java looks at passwd alone. In containers, a user may have no entry.
    """
    home = Path.home()
    try:
        if Path(pwd.getpwuid(os.getuid()).pw_dir) == home:
            return []
    except KeyError:
        pass
    settings = home / ".m2" / "settings.xml"
    chosen = ["--settings", str(settings)] if settings.exists() else []
    return [*chosen, f"-Dmaven.repo.local={home / '.m2' / 'repository'}"]


def _dependency(artifact: str) -> str:
    group, name, version = artifact.split(":")
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version></dependency>"
    )


_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_PROJECT = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>oka</groupId>
  <artifactId>jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>{dependencies}</dependencies>
</project>
"""
