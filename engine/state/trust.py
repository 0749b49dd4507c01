"""A check of checkpoints: pickles and foreign classes need a job that trusts all writers there.

Decoding a pickle can run any code of its maker, and a named class imports its module. Native tables
pass such bytes on without decoding them. So all bytes of a checkpoint are checked before any use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from engine.errors import CheckpointError
from engine.network import KeyedEntries, needs
from engine.record import PICKLED
from engine.record import registry as record_registry


def check(what: str, *parts: bytes | memoryview | KeyedEntries) -> None:
    """Raise CheckpointError if these encoded values need trust that the job does not give.

    `what` names them in the error. Raises DecodeError for other bytes.
    """
    if record_registry.are_checkpoints_trusted():
        return
    for part in parts:
        found = part.needs() if isinstance(part, KeyedEntries) else needs(part)
        _check(what, *found)


def _check(what: str, codes: Sequence[int], names: Iterable[bytes]) -> None:
    if codes:
        kind = "a pickle" if PICKLED in codes else "a model"
        raise CheckpointError(
            f"{what} has {kind}, which is not read from a checkpoint: whoever can write there "
            "could have it run what they like",
            "where the job itself has pickled it, say .with_pickle() in the pipeline, which trusts "
            "all who can write to its checkpoints; else somebody has changed the file",
        )
    for name in names:
        text = name.decode("utf-8", "replace")
        if not record_registry.may_import(text):
            raise CheckpointError(
                f"{what} has an object of class {text.replace(':', '.')!r:.200}, whose "
                "module is not imported here, and is not for a checkpoint's sake",
                record_registry.IMPORT_HINT,
            )
