"""Tables and joins without a bound in time: methods that users compose."""

from operators.tables.joins import Joins
from operators.tables.keyed import KeyedTables
from operators.tables.table import Table

__all__ = ["Joins", "KeyedTables", "Table"]
