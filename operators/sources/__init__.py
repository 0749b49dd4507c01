"""Sources: where records come from.

Every task of a source has its own share, so that a source works at any parallelism.
"""

from operators.sources.collection import Collection
from operators.sources.function import At, Function
from operators.sources.http import HttpSource
from operators.sources.models import Models
from operators.sources.random_words import RandomWords
from operators.sources.text_files import TextFiles

__all__ = ["At", "Collection", "Function", "HttpSource", "Models", "RandomWords", "TextFiles"]
