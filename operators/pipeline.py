"""The end of a declaration: a stream with its sink."""

from typing import TYPE_CHECKING, Any

from engine.errors import GraphError
from engine.graph.declaration import Declaration, Input, shown
from engine.partitioner import Forward
from operators.in_cells import pipeline_html
from operators.settings import named, on_nodes, with_parallelism, with_resources


class Pipeline:
    """A stream that ends in a sink; `engine.execute` takes it, alone or in a list."""

    def __init__(self, declaration: Declaration) -> None:
        self._declaration = declaration

    def __repr__(self) -> str:
        return f"<Pipeline {shown([Input(self._declaration, Forward())])}>"

    def _repr_html_(self) -> str | None:
        return pipeline_html(self)

    @property
    def declaration(self) -> Declaration:
        """The sink, with all declarations that it reads from."""
        return self._declaration

    def named(self, name: str) -> "Pipeline":
        """Give the sink a name, unique in the job: its output is `result.outputs[name]`."""
        return Pipeline(named(self._declaration, name))

    def with_parallelism(self, parallelism: int) -> "Pipeline":
        """Run the sink in this many tasks, whatever the job's parallelism."""
        return Pipeline(with_parallelism(self._declaration, parallelism))

    def with_resources(self, cpus: float | None = None, **custom: float) -> "Pipeline":
        """Set the resources of each task of the sink."""
        return Pipeline(with_resources(self._declaration, cpus, custom))

    def on_nodes(self, *numbers: int) -> "Pipeline":
        """Pin the tasks of the sink to nodes, in turn; see `Stream.on_nodes`."""
        return Pipeline(on_nodes(self._declaration, numbers))

    if not TYPE_CHECKING:  # a type checker sees that these methods do not exist

        def __getattr__(self, name: str) -> Any:
            from operators.stream import Stream  # which makes pipelines

            if name in vars(Stream) and not name.startswith("_"):
                raise GraphError(
                    f".{name}() follows .sink(), which ends a stream",
                    hint=f"call .{name}() on the stream before its sink",
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
