"""Records of each key in the order of time, without duplicates, or the first few by rank."""

from operators.order.keyed import KeyedOrder

__all__ = ["KeyedOrder"]
