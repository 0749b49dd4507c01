"""Graphs and a placement as text for a terminal and as Mermaid diagrams, for `oka plan`.

Both show the declared operators, the chains, the tasks and their nodes.
"""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from engine.graph.execution import ExecutionGraph, ExecutionVertex
from engine.graph.job import JobEdge, JobVertex
from engine.graph.logical import LogicalEdge, LogicalGraph
from engine.partitioner import label
from engine.units import counted


class PlacedNode(Protocol):
    """A node, as far as a rendering needs it."""

    @property
    def id(self) -> str:
        """The node's name."""


class PlacementView(Protocol):
    """A placement, as far as a rendering needs it."""

    @property
    def nodes(self) -> Mapping[int, PlacedNode]:
        """The node of every task, by the task's id."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user."""


def text(
    logical: LogicalGraph,
    execution: ExecutionGraph,
    placement: PlacementView,
    ways: Mapping[int, str] = MappingProxyType({}),
) -> str:
    """All stages as indented text, one line for each operator, vertex and node.

    `ways` says how functions of records run, by the operators' ids.
    """
    return "\n\n".join(
        f"{title}\n" + "\n".join(f"  {line}" for line in lines)
        for title, lines in (
            ("logical graph", _logical_lines(logical, ways)),
            ("job graph", _job_lines(execution)),
            (_execution_title(execution), _execution_lines(execution)),
            ("placement", _placement_lines(execution, placement)),
        )
    )


def operators(
    logical: LogicalGraph, ways: Mapping[int, str] = MappingProxyType({})
) -> list[tuple[str, str, str, str]]:
    """A row for each declared operator, by `COLUMNS`; empty where it has or says nothing."""
    rows = []
    takes_rows = logical.takes_rows()
    for operator in logical.operators:
        reads = ", ".join(
            f"{logical.operators[edge.source].name} ({_label(edge)})"
            for edge in logical.inputs(operator)
        )
        tasks = "" if operator.parallelism is None else f"{operator.parallelism}"
        way = ways.get(operator.id, "")
        rows_of = operator.id in takes_rows and not way.startswith(("native", "over"))
        told = ", ".join(filter(None, ("rows of columns" if rows_of else "", way)))
        rows.append((operator.name, tasks, reads, told))
    return rows


def mermaid(
    logical: LogicalGraph,
    execution: ExecutionGraph,
    placement: PlacementView,
    ways: Mapping[int, str] = MappingProxyType({}),
) -> str:
    """Three diagrams in fenced blocks: as declared, as chained, tasks inside their nodes."""
    diagrams = (
        ("Logical graph", _logical_diagram(logical, ways)),
        ("Job graph", _job_diagram(execution)),
        ("Execution graph and placement", _execution_diagram(execution, placement)),
    )
    blocks = []
    for title, lines in diagrams:
        body = "\n".join(f"  {line}" for line in lines)
        blocks.append(f"### {title}\n\n```mermaid\nflowchart LR\n{body}\n```")
    return "\n\n".join((*blocks, *placement.notes))


def _logical_lines(graph: LogicalGraph, ways: Mapping[int, str]) -> list[str]:
    lines = []
    for name, tasks, reads, runs in operators(graph, ways):
        read = ", ".join(filter(None, (reads, runs)))
        lines.append(f"{name}{f' x{tasks}' if tasks else ''}" + (f" <- {read}" if reads else ""))
    return lines


def _job_lines(execution: ExecutionGraph) -> list[str]:
    job = execution.job
    lines = []
    for vertex in job.vertices:
        lines.append(f"{vertex.name} x{vertex.parallelism} ({_resources(vertex)})")
        lines += [
            f"  <- {job.vertices[edge.source].name} ({_label(edge)})" for edge in job.inputs(vertex)
        ]
    return lines


def _execution_title(execution: ExecutionGraph) -> str:
    tasks = counted(len(execution.vertices), "task")
    return f"execution graph: {tasks}, {counted(len(execution.channels), 'channel')}"


def _execution_lines(execution: ExecutionGraph) -> list[str]:
    vertices = execution.job.vertices
    channels = Counter(channel.edge.id for channel in execution.channels)
    return [
        f"{vertices[edge.source].name} -> {vertices[edge.target].name}: "
        f"{counted(channels[edge.id], 'channel')} ({_label(edge)})"
        for edge in execution.job.edges
    ]


def _placement_lines(execution: ExecutionGraph, placement: PlacementView) -> list[str]:
    lines = []
    for node, tasks in _by_node(execution, placement).items():
        hosted: dict[str, list[str]] = {}
        for task in tasks:
            hosted.setdefault(task.job_vertex.name, []).append(str(task.index))
        what = ", ".join(f"{name} [{', '.join(indexes)}]" for name, indexes in hosted.items())
        lines.append(f"{node}: {what}")
    return lines + [f"note: {note}" for note in placement.notes]


def _logical_diagram(graph: LogicalGraph, ways: Mapping[int, str]) -> list[str]:
    labels = {
        each.id: f"{each.name} ({ways[each.id]})" if each.id in ways else each.name
        for each in graph.operators
    }
    boxes = [f"o{number}[{_quoted(label)}]" for number, label in labels.items()]
    return boxes + [
        f"o{edge.source} {_arrow(edge)}|{_quoted(_label(edge))}| o{edge.target}"
        for edge in graph.edges
    ]


def _job_diagram(execution: ExecutionGraph) -> list[str]:
    job = execution.job
    boxes = [
        f"v{vertex.id}[{_quoted(f'{vertex.name} x{vertex.parallelism}')}]"
        for vertex in job.vertices
    ]
    return boxes + [
        f"v{edge.source} {_arrow(edge)}|{_quoted(_label(edge))}| v{edge.target}"
        for edge in job.edges
    ]


def _execution_diagram(execution: ExecutionGraph, placement: PlacementView) -> list[str]:
    lines = []
    for number, (node, tasks) in enumerate(_by_node(execution, placement).items()):
        lines.append(f"subgraph n{number}[{_quoted(node)}]")
        lines += [f"  t{task.id}[{_quoted(task.name)}]" for task in tasks]
        lines.append("end")
    return lines + [
        f"t{channel.source} {_arrow(channel.edge)} t{channel.target}"
        for channel in execution.channels
    ]


def _by_node(
    execution: ExecutionGraph, placement: PlacementView
) -> dict[str, list[ExecutionVertex]]:
    hosted: dict[str, list[ExecutionVertex]] = {}
    for task in execution.vertices:
        hosted.setdefault(placement.nodes[task.id].id, []).append(task)
    return hosted


def _label(edge: LogicalEdge | JobEdge) -> str:
    name = label(edge.partitioner)
    if edge.output is not None:
        output = edge.output if isinstance(edge.output, str) else " of ".join(edge.output[::-1])
        name = f"side output {output}, {name}"
    return f"second input, {name}" if edge.input else name


def _arrow(edge: LogicalEdge | JobEdge) -> str:
    return "-.->" if edge.input else "-->"


def _resources(vertex: JobVertex) -> str:
    needs = ", ".join(f"{name} {amount:g}" for name, amount in vertex.resources.items())
    return f"each {needs}"


def _quoted(label: str) -> str:
    for character, entity in _ENTITIES:
        label = label.replace(character, entity)
    return f'"{label}"'


COLUMNS = ("operator", "tasks", "reads", "runs")
"""Of a table of operators. Without a number of tasks it has that of the job."""
_ENTITIES = (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"))  # Mermaid's arrows
