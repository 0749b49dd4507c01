"""Changes of tables: rows that come and go, in records and in columns, and operators of them."""

from operators.changes.accumulators import check_taken
from operators.changes.aggregate import TableAggregate
from operators.changes.change import (
    AFTER,
    BEFORE,
    DELETE,
    INSERT,
    KIND,
    KINDS,
    Change,
    Kind,
    check_changes,
    kind_numbers,
    with_kinds,
    without_kinds,
)
from operators.changes.latest import Latest, Place, latest_of
from operators.changes.suppress import Suppress

__all__ = [
    "AFTER",
    "BEFORE",
    "DELETE",
    "INSERT",
    "KIND",
    "KINDS",
    "Change",
    "Kind",
    "Latest",
    "Place",
    "Suppress",
    "TableAggregate",
    "check_changes",
    "check_taken",
    "kind_numbers",
    "latest_of",
    "with_kinds",
    "without_kinds",
]
