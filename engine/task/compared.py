"""The comparison of results in both ways, for `native="check"`."""

from __future__ import annotations

from typing import Any

from engine.columns import Rows, is_columns, rows
from engine.errors import EngineError
from engine.network import Batch, EncodeError
from engine.task.failure import shortened


class NativeDiffers(EngineError):
    """A function of records has other results in Rust, or over columns, than in Python."""


def check_alike(native: Any, interpreted: Any, batch: Any, names: str) -> None:
    """Raise NativeDiffers unless both are the same records, by their encodings."""
    try:
        given, wanted = _encoded(native), _encoded(interpreted)
    except EncodeError:
        return  # the gate tells of it
    if given == wanted:
        return
    # NaN are one to who decodes them; natively their bits are copied.
    native, interpreted = _again(native), _again(interpreted)
    if _encoded(native) == _encoded(interpreted):
        return
    found = f"{len(native)} records natively and {len(interpreted)} by Python"
    for one, other in zip(native, interpreted, strict=False):
        if _encoded([one]) != _encoded([other]):
            found = f"{shortened(one)} natively and {shortened(other)} by Python"
            break
    raise NativeDiffers(
        f"{names} gave {found}, of a batch that begins with {shortened(_records(batch)[:1])}",
        hint="please report this; native='off' leaves the work to Python",
    )


def _records(batch: Any) -> Any:
    if type(batch) is Batch or type(batch) is Rows:
        return batch.to_list()
    return rows(batch) if is_columns(batch) else batch


def _encoded(batch: Any) -> bytes:
    """The bytes of the encoded records."""
    if type(batch) is not Batch:
        batch = Batch.from_list(_records(batch))
    return bytes_of(batch)


def _again(batch: Any) -> list[Any]:
    """Its records, as the next task decodes them."""
    encoded = batch if type(batch) is Batch else Batch.from_list(_records(batch))
    records: list[Any] = encoded.decode()
    return records


def bytes_of(batch: Batch) -> bytes:
    """The bytes of a batch of encoded records, one behind the other."""
    (frames,) = batch.__reduce__()[1]
    return b"".join(body for _, body in frames)
