"""What tests with hosts share: why there can be none here, and a name for their network."""

from __future__ import annotations

import os

import pytest

from benchmarks.testbed.network import missing

needs_hosts = pytest.mark.skipif(missing() is not None, reason=str(missing()))
NAME = f"t{os.getpid()}"
"""No other process has it, nor does a person's testbed."""
