"""A check for processes that were forked from a process with a connection to Ray.

A connection has threads, which a forked process does not have: a call of Ray there waits for ever.
"""

from __future__ import annotations

import os
import sys


def has_dead_connection() -> bool:
    """Whether Ray wrongly considers this process connected."""
    return _has_dead_connection


def _note() -> None:
    global _has_dead_connection
    ray = sys.modules.get("ray")
    _has_dead_connection = ray is not None and ray.is_initialized()


_has_dead_connection = False
os.register_at_fork(after_in_child=_note)
