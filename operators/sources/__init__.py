"""Sources: where records come from.

Every task of a source has its own share, so that a source works at any parallelism.
"""

from operators.sources.collection import Collection
from operators.sources.files.csv_files import CsvFiles
from operators.sources.files.json_files import JsonFiles
from operators.sources.files.parquet_files import ParquetFiles
from operators.sources.function import At, Function
from operators.sources.http import HttpSource
from operators.sources.models import Models
from operators.sources.random_words import RandomWords
from operators.sources.text_files import TextFiles

__all__ = [
    "At",
    "Collection",
    "CsvFiles",
    "Function",
    "HttpSource",
    "JsonFiles",
    "Models",
    "ParquetFiles",
    "RandomWords",
    "TextFiles",
]
