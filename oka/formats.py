"""Formats: the bytes of messages to records or columns, and back."""

from operators.formats import *
from operators.formats import __all__ as __all__
