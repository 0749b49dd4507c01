"""The API to compose pipelines: `source(...)`, then methods of streams, then `.sink(...)`.

Composing does nothing; `engine.execute` runs what a sink has closed.
"""

from operators.aggregates import Count, First, Max, Mean, Min, Sum
from operators.keyed_stream import KeyedStream
from operators.pipeline import Pipeline
from operators.stream import Stream, source

__all__ = [
    "Count",
    "First",
    "KeyedStream",
    "Max",
    "Mean",
    "Min",
    "Pipeline",
    "Stream",
    "Sum",
    "source",
]
