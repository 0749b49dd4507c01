"""Sinks: where records end.

`Collect` and `Counts` bring their records back to the driver, as the job's output.
"""

from operators.sinks.callback import Callback
from operators.sinks.collect import Collect
from operators.sinks.console import Print
from operators.sinks.counts import Counts
from operators.sinks.discard import Discard
from operators.sinks.files import JsonLines, LineFiles

__all__ = ["Callback", "Collect", "Counts", "Discard", "JsonLines", "LineFiles", "Print"]
