"""The API to compose pipelines: `source(...)`, then methods of streams, then `.sink(...)`.

Composing does nothing; `engine.execute` runs what a sink has closed. For your own operator write a
`BatchOperator`; `Stream.then` puts it behind a stream.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import engine

if Path(engine.__file__ or "").resolve().parent.parent != Path(__file__).resolve().parent.parent:
    raise ImportError(  # nothing of the engine that could say it
        f"{engine.__file__} hides Oka's package 'engine'\n\n"
        "hint: give it another name; programs need Oka's packages oka, engine and operators"
    )

from engine.installation.names import of_api

if TYPE_CHECKING:
    from operators.api import *
else:  # type checkers would take any name for one of this module
    __getattr__, __dir__ = of_api(__name__)
