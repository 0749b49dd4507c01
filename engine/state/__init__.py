"""State of operators by key, in a form that tasks of any number can go on with."""

from engine.state.keyed import KeyedState

__all__ = ["KeyedState"]
