"""The API to compose pipelines: `source(...)`, then methods of streams, then `.sink(...)`.

Composing does nothing; `engine.execute` runs what a sink has closed.
"""

from operators.stream import KeyedStream, Pipeline, Stream, source

__all__ = ["KeyedStream", "Pipeline", "Stream", "source"]
