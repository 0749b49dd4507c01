"""The report: figures that show every row, and a page that is whole, alone and legible."""

import base64
import builtins
import functools
import json
import re
import struct
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import same_color, to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from benchmarks import plots, report
from benchmarks.plots import colors, style
from benchmarks.schema import references, results_file
from engine.errors import ConfigError
from tests.unit.benchmarks import results

BATCHES, PAYLOADS = results.BATCHES, results.PAYLOADS


@functools.cache
def drawn(make: str) -> dict[str, plots.Drawing]:
    """Figures take seconds to draw, and no test changes them."""
    drawings = plots.draw(getattr(results, make)())
    assert len({drawing.name for drawing in drawings}) == len(drawings)
    return {drawing.name: drawing for drawing in drawings}


def lines_of(panel: Axes) -> list[Any]:
    return [line for line in panel.get_lines() if len(line.get_xdata())]


def test_the_three_figures_of_the_article() -> None:
    drawings = drawn("a_sweep")
    assert [name for name in drawings if name.startswith("scaling")] == [
        f"scaling_{payload}" for payload in PAYLOADS
    ]
    figure = drawings["scaling_256"].figure
    panels = figure.axes
    assert len(panels) == 3 * len(BATCHES)
    for at, panel in enumerate(panels):
        assert panel.get_title() == (f"batch {BATCHES[at]:,}" if at < len(BATCHES) else "")
        # A line of each API with its error bars, in the colour of that API; the pair has one point.
        for api, container in zip(results.APIS, panel.containers, strict=False):
            assert list(container[0].get_xdata()) == [1, 2]
            assert same_color(container[0].get_color(), colors.color("oka", api))
        assert list(panel.containers[-1][0].get_xdata()) == [1]
        # Volga: two curves and what was measured, no farther than helps to read the others.
        systems = {container[0] for container in panel.containers}
        volga = [line for line in lines_of(panel) if line not in systems]
        curves = [line for line in volga if line.get_marker() in ("None", "*")]
        assert len(curves) == (3 if at < 2 * len(BATCHES) else 2)
        assert all(same_color(line.get_color(), colors.GRAY) for line in curves)
        assert max(max(line.get_xdata()) for line in curves) == 8
        assert panel.get_xscale() == panel.get_yscale() == "log"
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    for source in references.VOLGA_SOURCES.values():
        assert source in legend
    title = figure.get_suptitle()
    assert "Xeon" in title
    assert "2 cores" in title
    assert "2026-11-21" in title


def test_the_points_are_the_rows() -> None:
    sweep = results.a_sweep()
    panels = drawn("a_sweep")["scaling_256"].figure.axes
    rows = [
        row
        for row in sweep["rows"]
        if (row["api"], row["payload_bytes"], row["batch_size"]) == ("columnar", 256, 100)
    ]
    at, api = BATCHES.index(100), list(results.APIS).index("columnar")
    throughput, p99, mean = (
        panels[len(BATCHES) * metric + at].containers[api] for metric in range(3)
    )
    assert list(throughput[0].get_ydata()) == [row["throughput"]["median"] for row in rows]
    assert list(p99[0].get_ydata()) == [row["latency_us"]["p99"] for row in rows]
    assert list(mean[0].get_ydata()) == [row["latency_us"]["mean"] for row in rows]
    ends = [(low[1], high[1]) for low, high in throughput[2][0].get_segments()]
    expected = [(row["throughput"]["min"], row["throughput"]["max"]) for row in rows]
    assert ends == [pytest.approx(each) for each in expected]


RESULTS = [
    *("a_sweep", "a_sweep_of_loads", "some_peers", "several_systems", "a_testbed", "a_broadcast"),
]


def colors_of(figure: Figure) -> Iterator[tuple[str, str]]:
    """Each system that a legend or a bar's label names, and the colour that it has there."""
    legends = [*figure.legends, *(panel.get_legend() for panel in figure.axes)]
    for legend in filter(None, legends):
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
            color = handle.get_facecolor() if isinstance(handle, Patch) else handle.get_color()
            if not same_color(color, colors.GRAY):
                yield text.get_text(), to_hex(color)
    labels = [label.get_text().lower() for label in figure.axes[0].get_yticklabels()]
    if any(label.startswith("oka ") or "\noka " in label for label in labels):
        # Labels of two lines are of two bars, of which the upper one comes second.
        names = [name for label in labels for name in reversed(label.split("\n"))]
        bars = sorted(figure.axes[0].patches, key=lambda bar: bar.get_y())
        yield from zip(names, [to_hex(bar.get_facecolor()) for bar in bars], strict=True)


def test_a_system_has_one_colour_and_a_colour_one_system() -> None:
    found: dict[str, set[str]] = {}
    for make in RESULTS:
        for drawing in drawn(make).values():
            for name, color in colors_of(drawing.figure):
                found.setdefault(name.partition(" (")[0], set()).add(color)
    assert {name: len(each) for name, each in found.items()} == dict.fromkeys(found, 1)
    assert len(found) > 15
    owners: dict[str, set[str]] = {}
    for name, (color,) in found.items():
        # One system's ways to count words may share its colour, Oka's do not.
        owner = name if name.startswith("oka ") or "lists" not in name else name.split()[0]
        owners.setdefault(color, set()).add(owner)
    assert {color: each for color, each in owners.items() if len(each) > 1} == {}


def test_ways_that_take_nearly_the_same_time_are_seen() -> None:
    wide, close = drawn("a_broadcast")["nodes_564000000_1gbit"].figure.axes
    assert len(wide.containers) == 4
    assert len(close.containers) == 3  # without plasma
    places = [tuple(container[0].get_xdata()) for container in close.containers]
    assert len({place[0] for place in places}) == 3
    assert wide.get_ylim()[0] == 0 < close.get_ylim()[0]


def test_cost_has_a_line_per_system_and_parallelism() -> None:
    figure = drawn("a_sweep")["cpu"].figure
    assert len(figure.axes) == len(PAYLOADS)
    for panel in figure.axes:
        shown = [container for container in panel.containers if len(container[0].get_xdata())]
        assert len(shown) == 2 * len(results.APIS) + 1
        assert all(list(each[0].get_xdata()) == list(BATCHES) for each in shown)


def test_latency_against_offered_load() -> None:
    result = results.a_sweep_of_loads()
    figure = drawn("a_sweep_of_loads")["load_parallelism_1"].figure
    assert len(figure.axes) == 2 * len(BATCHES)
    for panel in figure.axes:
        assert len(lines_of(panel)) == 2 * (len(results.APIS) + 1)
    first = [
        row
        for row in result["rows"]
        if (row["api"], row["payload_bytes"], row["batch_size"]) == ("per_record", 32, 1)
    ]
    p50, p99 = lines_of(figure.axes[0])[:2]
    assert list(p50.get_xdata()) == [row["offered"] for row in first]
    assert list(p50.get_ydata()) == [row["latency_us"]["p50"] for row in first]
    assert list(p99.get_ydata()) == [row["latency_us"]["p99"] for row in first]


def test_the_distribution_rises_to_the_maximum() -> None:
    figure = drawn("a_sweep")["distribution"].figure
    assert len(figure.axes) == len(BATCHES)
    for panel in figure.axes:
        assert len(lines_of(panel)) == len(results.APIS) + 1
        for line in lines_of(panel):
            values = list(line.get_ydata())
            assert values == sorted(values)


def test_each_peer_has_a_bar_beside_oka_s_with_the_ratio() -> None:
    (drawing,) = drawn("some_peers").values()
    throughput, cpu, latency = drawing.figure.axes
    assert len(throughput.patches) == len(cpu.patches) == 6
    assert len(latency.patches) == 5
    assert [label.get_text() for label in throughput.get_yticklabels()] == [
        "pathway python_source\nOka native",
        "bytewax per_record\nOka per_record",
        "flink_java datastream\nOka native",
    ]
    written = [text.get_text() for text in throughput.texts]
    assert written == ["48M  240×", "200k", "7M  4.12×", "1.7M", "48M  8×", "6M"]
    assert [text.get_text() for text in cpu.texts][:2] == ["0.05 s  10×", "0.5 s"]


def test_systems_are_bars_with_ratios_to_the_pair() -> None:
    result = results.several_systems()
    (drawing,) = drawn("several_systems").values()
    throughput, cpu, latency = drawing.figure.axes
    with_latency = [row for row in result["rows"] if row["latency_us"]]
    assert len(throughput.patches) == len(cpu.patches) == len(result["rows"])
    assert len(latency.patches) == len(with_latency) == len(result["rows"]) - 1
    pair = next(row for row in result["rows"] if row["system"] == results.PAIR)
    written = [text.get_text() for text in throughput.texts]
    for row in result["rows"]:
        ratio = row["throughput"]["median"] / pair["throughput"]["median"]
        assert any(text.endswith(f"  {ratio:.3g}×") for text in written)
    ordered = [label.get_text() for label in throughput.get_yticklabels()]
    assert ordered[-1] == "oka columnar"
    assert ordered[0] == "pyflink datastream_thread_mode"


def test_the_testbed_has_a_panel_per_link_rate() -> None:
    (drawing,) = drawn("a_testbed").values()
    assert [panel.get_title() for panel in drawing.figure.axes] == [
        "256-byte words, 100 Mbit/s",
        "256-byte words, 1 Gbit/s",
        "256-byte words, no limit",
    ]
    for panel in drawing.figure.axes:
        assert len(panel.patches) == 2 * 3
    assert drawing.figure.axes[0].texts[0].get_text() == "37.5k (77%)"


@pytest.mark.parametrize("make", RESULTS)
def test_no_text_lies_outside_its_figure_or_on_another_title(make: str) -> None:
    for drawing in drawn(make).values():
        figure = drawing.figure
        renderer = FigureCanvasAgg(figure).get_renderer()
        figure.draw(renderer)
        whole = figure.bbox
        panels = [panel.get_window_extent(renderer) for panel in figure.axes]
        for legend in figure.legends:
            box = legend.get_window_extent(renderer)
            assert not any(box.overlaps(panel) for panel in panels)
            assert box.x0 >= whole.x0
            assert box.x1 <= whole.x1
        for panel, extent in zip(figure.axes, panels, strict=True):
            title = panel.title.get_window_extent(renderer)
            assert title.width <= extent.width
            for text in panel.texts:
                assert text.get_window_extent(renderer).x1 <= whole.x1


class Page(HTMLParser):
    """What a browser would load and show."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.images: list[dict[str, Any]] = []
        self.loads: list[str] = []
        self.open: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        found = dict(attributes)
        self.loads += [found[name] for name in ("src", "href", "data") if found.get(name)]
        if tag not in ("meta", "img", "link", "br"):
            self.open.append(tag)
        if tag == "img":
            self.images.append(found)
        elif tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data


def make_report(tmp_path: Path, *made: dict[str, Any], formats: str = "svg") -> tuple[Page, Path]:
    """The page, and its folder. SVG is drawn anyway, for the page; PNG takes as long again."""
    files = []
    for at, result in enumerate(made):
        folder = tmp_path / str(at)
        results_file.write(folder / "result.json", result)
        files.append(str(folder / "result.json"))
    output = tmp_path / "report"
    arguments = [*files, "--output", str(output), "--format", formats]
    done = CliRunner().invoke(report.command, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    page = (output / "index.html").read_text()
    assert not re.search(r"https?://", page)
    assert not [path for path in output.iterdir() if path.name.startswith(".")]
    return Page(page), output


def test_the_page_holds_its_figures_and_every_row(tmp_path: Path) -> None:
    sweep = results.a_sweep()
    sweep["rows"].append(results.a_failed_row(api="native", parallelism=4))
    page, output = make_report(tmp_path, sweep, results.some_peers())
    assert len(page.images) == len(PAYLOADS) + 2 + 1
    for image in page.images:
        assert len(image["alt"]) > 80
        kind, _, data = image["src"].partition(",")
        assert kind == "data:image/svg+xml;base64"
        assert b"<svg" in base64.b64decode(data)
    assert all(url.startswith(("data:", "#")) for url in page.loads)
    assert "default-src 'none'" in (output / "index.html").read_text()
    rows, peers = page.tables
    assert len(rows) == 1 + len(sweep["rows"])
    assert len(peers) == 1 + len(results.some_peers()["rows"])
    columns = {name: at for at, name in enumerate(rows[0])}
    for row, shown in zip(sweep["rows"], rows[1:], strict=True):
        assert shown[columns["API"]] == row["api"]
        assert shown[columns["batch"]] == f"{row['batch_size']:,}"
        assert bool(shown[columns["words/s"]]) == bool(row["throughput"])
    for told in (
        "Xeon",
        "25 GiB",
        "2026-11-21",
        "0123456789abcdef",
        "python 3.11.7",
        "repeats = 3",
    ):
        assert told in page.text
    # Escaped on the page, so that the parser gives it back.
    assert "oka native, 32 bytes, batch 100, parallelism 4, closed load: worker of" in page.text
    assert "killed by <signal> 9 & gone" in page.text
    # Many rows are shown when they are asked for, few at once.
    opened = re.findall('<details class="rows"(.*)>', (output / "index.html").read_text())
    assert opened == ["", " open"]


def test_what_all_rows_share_is_no_column(tmp_path: Path) -> None:
    page, _ = make_report(tmp_path, results.some_peers())
    (rows,) = page.tables
    assert rows[0] == [
        *("system", "API", "in turn with", "runs", "words/s", "CPU s per million"),
        *("mean", "p50", "p95", "p99", "p99.9", "max", "words in all", "failures"),
    ]
    shared = "In every row: where local, shm, bytes 32, batch 100, tasks 1, load closed."
    assert shared in " ".join(page.text.split())
    by_system = {row[0]: row for row in rows}
    assert by_system["oka"][2] == "spark native"
    assert by_system["bytewax"][2] == ""


def test_the_table_of_a_broadcast_has_its_results(tmp_path: Path) -> None:
    result = results.a_broadcast()
    page, _ = make_report(tmp_path, result)
    assert "None" not in page.text
    (rows,) = page.tables
    assert rows[0] == [
        *("case", "what", "way", "hosts", "tasks", "usable, s", "loaded, s", "GB/s"),
        *("CPU s per GiB", "memory, models"),
    ]
    first, encrypted = rows[1:3]
    assert "links 1 Gbit/s" in page.text
    assert first[:3] == ["1", "one other node", "channels"]
    assert encrypted[2] == "channels, encrypted"
    assert first[5].startswith(f"{result['rows'][0]['usable_seconds']['median']:.2f}")
    assert " to " in first[5]


def test_figures_beside_the_page_are_images(tmp_path: Path) -> None:
    _, output = make_report(tmp_path, results.several_systems(), formats="png,svg")
    png = (output / "result_systems_32_1000_1_closed.png").read_bytes()
    svg = (output / "result_systems_32_1000_1_closed.svg").read_text()
    (drawing,) = drawn("several_systems").values()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert png[-8:-4] == b"IEND"
    size = struct.unpack(">II", png[16:24])
    inches = drawing.figure.get_size_inches()
    assert size == tuple(int(inch * style.RC["savefig.dpi"]) for inch in inches)
    assert svg.rstrip().endswith("</svg>")


def test_the_same_results_make_the_same_files(tmp_path: Path) -> None:
    _, first = make_report(tmp_path / "a", results.a_testbed(), formats="png,svg")
    _, second = make_report(tmp_path / "b", results.a_testbed(), formats="png,svg")
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes()


@pytest.mark.table(3)
@pytest.mark.parametrize(
    ("rows", "images"),
    [
        ([], 0),
        ([results.a_failed_row()], 0),
        ([results.a_row()], 3),
        ([{**results.a_row(), "latency_us": None, "histogram": None}], 2),
        ([results.a_row(load="0.5", offered=None)], 2),
        ([results.a_row(load="sustainable")], 2),
        ([results.a_row(batch_size=None, parallelism=None)], 1),
        ([results.a_row(batch_size=50, payload_bytes=7)], 3),
        ([results.a_row(api="native"), results.a_row(api="native", transport="tcp")], 3),
        ([results.a_row(), results.a_row(payload_bytes=64)], 4),
        ([results.a_row(throughput=0.0, cpu=0.0)], 0),
        ([results.a_row(cpu=0.0)], 2),
    ],
)
@pytest.mark.parametrize("benchmark", ["word_count", "peers", "sustainable", "testbed"])
def test_few_rows_are_a_report_too(
    tmp_path: Path, rows: list[dict[str, Any]], images: int, benchmark: str
) -> None:
    page, _ = make_report(tmp_path, results.a_result(rows, benchmark=benchmark))
    if benchmark == "word_count":
        assert len(page.images) == images
    assert len(page.tables) == bool(rows)
    assert bool(page.images) or "No row of this result has a figure" in page.text


def test_a_file_without_what_is_optional(tmp_path: Path) -> None:
    row = results.a_row()
    needed = (
        "system",
        "api",
        "payload_bytes",
        "batch_size",
        "parallelism",
        "throughput",
        "latency_us",
    )
    bare = {
        "schema": "oka.bench/1",
        "benchmark": "word_count",
        "rows": [{field: row[field] for field in needed}],
    }
    page, _ = make_report(tmp_path, bare)
    assert len(page.images) == 1
    assert "unknown" in page.text


def test_files_of_the_same_name_do_not_meet(tmp_path: Path) -> None:
    page, output = make_report(tmp_path, results.a_testbed(), results.a_testbed())
    assert {path.name for path in output.glob("*.svg")} == {
        "result_testbed.svg",
        "result_2_testbed.svg",
    }
    assert len(page.tables) == 2


def fails(*arguments: Any) -> str:
    with pytest.raises(ConfigError) as raised:
        CliRunner().invoke(
            report.command, [str(argument) for argument in arguments], catch_exceptions=False
        )
    return str(raised.value)


def test_a_file_that_is_no_result_leaves_nothing_behind(tmp_path: Path) -> None:
    good, other = tmp_path / "good.json", tmp_path / "other.json"
    results_file.write(good, results.a_testbed())
    other.write_text(json.dumps({"schema": "oka.result/1"}))
    output = tmp_path / "report"
    assert "expected 'oka.bench/1'" in fails(good, other, "--output", output)
    assert "No such file" in fails(good, tmp_path / "none.json", "--output", output)
    assert not output.exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    good = tmp_path / "good.json"
    results_file.write(good, results.a_testbed())
    (tmp_path / "file").write_text("here")
    assert "its folder cannot be made" in fails(good, "--output", tmp_path / "file" / "report")
    # A folder where a figure must lie: the report stays away as a whole.
    (tmp_path / "report" / "good_testbed.svg").mkdir(parents=True)
    assert "--output FOLDER" in fails(good, "--output", tmp_path / "report")


def test_without_matplotlib_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = tmp_path / "good.json"
    results_file.write(good, results.a_testbed())
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("benchmarks") and rest[2] and "plots" in rest[2]:
            raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    message = fails(good, "--output", tmp_path / "report")
    assert "needs the package matplotlib" in message
    assert "pip install 'oka-streams[report]'" in message
    assert not (tmp_path / "report" / "index.html").exists()


def test_another_format_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(report.command, ["x.json", "--format", "png,gif"])
    assert done.exit_code == 2
    assert "'gif' is none of png, svg" in done.output
