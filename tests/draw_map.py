"""The map in ARCHITECTURE.md: each folder of the product by the first sentence of its code.

`make map` writes it anew; with `--check`, says whether it is as the code says, and which files are
named in the page that are not there.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- the map: make map -->", "<!-- end of the map -->"
PACKAGES = ("oka", "engine", "operators", "pipelines", "benchmarks", "k8s")


def drawn() -> str:
    """The rooms of the engine, the upper using the lower, and a line of each folder."""
    return "\n".join(["```text", *_floors(), "```", "", *_folders()])


def _floors() -> Iterator[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    (rooms,) = (each for each in contracts if each.get("containers") == ["engine"])
    floors = [floor.split(" | ") for floor in rooms["layers"]]
    width = max(len("   ".join(floor)) for floor in floors)
    line = f"+{'-' * (width + 2)}+"
    for floor in floors:
        yield line
        yield f"| {'   '.join(floor):{width}} |"
    yield line


def _folders() -> Iterator[str]:
    yield "| Folder | |"
    yield "|---|---|"
    for package in PACKAGES:
        for init in sorted((ROOT / package).rglob("__init__.py")):
            yield _row(init.parent, ast.get_docstring(ast.parse(init.read_text())) or "")
    for manifest in sorted((ROOT / "rust").glob("*/Cargo.toml")):
        (source,) = (
            found
            for name in ("lib.rs", "main.rs")
            if (found := manifest.parent / "src" / name).exists()
        )
        comment = re.match(r"(?://!.*\n)+", source.read_text())
        assert comment is not None, f"{source} does not say what it is"
        yield _row(manifest.parent, re.sub(r"^//! ?", "", comment[0], flags=re.M))


def _row(folder: Path, text: str) -> str:
    where = folder.relative_to(ROOT).as_posix()
    sentence = re.split(r"(?<=\.)\s|\n\n", f"{text.strip()} ", maxsplit=1)[0]
    assert sentence, f"{where} does not say what it is"
    return f"| `{where}` | {' '.join(sentence.split())} |"


def main() -> int:
    """Write the map, or compare it."""
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    new = f"{before}{BEGIN}\n\n{drawn()}\n\n{END}{after}"
    if "--check" not in sys.argv:
        PAGE.write_text(new)
    elif new != page:
        print("the map in ARCHITECTURE.md is not as the code says\n\nhint: make map")
        return 1
    named = re.findall(rf"`((?:{'|'.join((*PACKAGES, 'rust', 'tests', 'docs'))})/[\w./-]+)`", page)
    missing = [each for each in dict.fromkeys(named) if not (ROOT / each).exists()]
    for each in missing:
        print(f"ARCHITECTURE.md names {each}, which is not there")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
