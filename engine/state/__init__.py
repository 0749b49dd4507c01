"""State of operators by key, in a form that tasks of any number can go on with."""

from engine.network import decode_value
from engine.state.keyed import Items, KeyedState, encode_value

__all__ = ["Items", "KeyedState", "decode_value", "encode_value"]
