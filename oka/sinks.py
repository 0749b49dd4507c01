"""Sinks: where records end."""

from operators.sinks import *
from operators.sinks import __all__ as __all__
