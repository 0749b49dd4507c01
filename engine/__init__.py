"""Oka: a streaming dataflow engine. Pipelines in Python, records moved by Rust."""

from typing import TYPE_CHECKING

from engine.installation.names import of_api
from engine.installation.shadows import refuse_others

if TYPE_CHECKING:
    from engine.api import *
else:  # type checkers would take any name for one of this module
    __getattr__, __dir__ = of_api(__name__)

refuse_others()
