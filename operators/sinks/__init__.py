"""Sinks: where records end.

`Collect` and `Counts` bring their records back to the driver, as the job's output.
"""

from operators.sinks.callback import Callback
from operators.sinks.collect import Collect
from operators.sinks.console import Print
from operators.sinks.counts import Counts
from operators.sinks.discard import Discard
from operators.sinks.files.csv_files import CsvSink
from operators.sinks.files.parquet import ParquetSink
from operators.sinks.files.partition_by import ByTime
from operators.sinks.files.text_files import JsonLines, LineFiles

__all__ = [
    "ByTime",
    "Callback",
    "Collect",
    "Counts",
    "CsvSink",
    "Discard",
    "JsonLines",
    "LineFiles",
    "ParquetSink",
    "Print",
]
