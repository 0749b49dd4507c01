"""All that programs need of Oka: `import oka`.

>>> import oka
>>> words = oka.source(oka.sources.Collection(["a", "b", "a"]))
>>> counted = words.map(lambda word: (word, 1)).key_by(0).sum(1)
>>> dict(oka.testing.run(counted.sink(oka.sinks.Collect()))["collect"])["a"]
2

Each name is the object of `engine` or `operators`, loaded when it is first used. Modules of names:
`oka.sources`, `oka.sinks`, `oka.formats`, `oka.kafka`, `oka.patterns`, `oka.errors` and
`oka.testing`.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import engine

if TYPE_CHECKING:
    from engine import api as of_engine
    from engine.api import *
    from engine.gateway import Request, Response
    from engine.model import Model
    from engine.s3 import S3
    from oka import errors, formats, kafka, patterns, sinks, sources, testing
    from operators import api as of_operators
    from operators.api import *

    __all__ = ["S3", "Model", "Request", "Response"]
    __all__ += ["errors", "formats", "kafka", "patterns", "sinks", "sources", "testing"]
    __all__ += of_engine.__all__
    __all__ += of_operators.__all__
else:  # type checkers would take any name for one of this module

    def __getattr__(name: str) -> Any:
        """The object of this name, which is then a variable of this module."""
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        if name == "__all__":
            found = [*_MODULES, *_ELSEWHERE]
            found += import_module("engine").__all__ + import_module("operators").__all__
        else:
            found = getattr(_package(name), name)
        globals()[name] = found
        return found


def _package(name: str) -> Any:
    """The module that has the object."""
    if name in _ELSEWHERE:
        return import_module(_ELSEWHERE[name])
    if not name.startswith("__"):  # what Python itself asks for, such as __path__, loads nothing
        for package in map(import_module, (engine.__name__, "operators")):
            if name in package.__all__:
                return package
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message, name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted({*globals(), *sys.modules[__name__].__all__})


_MODULES = ("errors", "formats", "kafka", "patterns", "sinks", "sources", "testing")
_ELSEWHERE = {
    "Request": "engine.gateway",
    "Response": "engine.gateway",
    "Model": "engine.model",
    "S3": "engine.s3",
}
