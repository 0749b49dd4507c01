"""Streams and pipelines as a notebook shows them: a table of their operators."""

from collections.abc import Sequence

from engine.errors import GraphError
from engine.graph.declaration import Declaration, Executable, Input
from engine.notebook import html
from operators.sinks.discard import Discard


class _Ended:
    """A pipeline for the operators of a stream that is not ended yet."""

    def __init__(self, inputs: Sequence[Input]) -> None:
        self.declaration = Declaration(Discard(), "…", tuple(inputs), named=True)


def stream_html(inputs: Sequence[Input]) -> str | None:
    """A row for each operator, and one for the next, which is not there; as `pipeline_html`."""
    return pipeline_html(_Ended(inputs))


def pipeline_html(pipeline: Executable) -> str | None:
    """A row for each operator, with what it reads and how it runs, as in `oka plan`.

    None where it cannot run as it is, such as without the pipeline of its side output.
    """
    # What plans is loaded when something is shown.
    from engine.graph import chain, expand, logical_graph, render
    from engine.ways import ways

    try:
        logical = logical_graph(pipeline)
        found = ways(logical, expand(chain(logical, 1)), "auto")
    except GraphError:
        return None
    rows = render.operators(logical, found)
    used = [at for at in range(len(render.COLUMNS)) if any(row[at] for row in rows)]
    cells = [[row[at] for at in used] for row in rows]
    return html.table([render.COLUMNS[at] for at in used], cells, names=len(used))
