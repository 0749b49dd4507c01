"""References to models in Ray's object store, from whoever can write to a channel."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import pytest

from engine.broadcast.plasma import _References
from engine.errors import ModelError


class Touching:
    """Makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_reference_calls_nothing_but_what_ray_makes_references_by(tmp_path: Path) -> None:
    crafted = pickle.dumps(Touching(tmp_path / "touched"))
    with pytest.raises(ModelError, match="its reference would import "):
        _References(io.BytesIO(crafted)).load()
    assert not list(tmp_path.iterdir())
