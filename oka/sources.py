"""Sources: where records come from."""

from operators.sources import *
from operators.sources import __all__ as __all__
