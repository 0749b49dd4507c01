"""The API to compose pipelines: `source(...)`, then methods of streams, then `.sink(...)`.

Composing does nothing; `engine.execute` runs what a sink has closed.
"""

from pathlib import Path

import engine

if Path(engine.__file__ or "").resolve().parent.parent != Path(__file__).resolve().parent.parent:
    raise ImportError(  # nothing of the engine that could say it
        f"{engine.__file__} hides Oka's package 'engine'\n\n"
        "hint: give it another name; programs need Oka's packages engine and operators"
    )

from operators.stream import KeyedStream, Pipeline, Stream, source

__all__ = ["KeyedStream", "Pipeline", "Stream", "source"]
