"""The safetensors layout, read and written in place.

    8 bytes  length of the header, little endian
    header   JSON: {name: {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {…}}
    data     the tensors, row-major and little endian, without holes

The library's loaders copy every tensor; here tensors are NumPy views of the file's memory. The
header is padded with spaces (as the format allows) so that the data begin at a multiple of
`ALIGNMENT`, and the largest element types come first, so that every tensor is aligned. Format:
https://huggingface.co/docs/safetensors, checked against the library in the tests.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from engine.errors import ModelError
from engine.model.layout import ALIGNMENT

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[Any]


def write(tensors: Mapping[str, Any]) -> list[memoryview]:
    """The file as its header and the bytes of each tensor, which are not copied.

    Copies are made of arrays that are not contiguous in row-major order or not little endian.
    Raises ModelError for values that are no arrays, and for types that NumPy does not have, such as
    bfloat16: publish these as files, or as `uint16` views.
    """
    entries = []
    for name, value in tensors.items():
        if not isinstance(name, str) or name == _METADATA:
            raise ModelError(f"a tensor is named {name!r}, expected a text but {_METADATA!r}")
        entries.append((name, *_storable(name, value)))
    entries.sort(key=lambda entry: (-entry[2].dtype.itemsize, entry[0]))
    header: dict[str, Any] = {}
    end = 0
    for name, dtype, array in entries:
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    head = len(text).to_bytes(8, "little") + text
    # reshape(-1) of a contiguous array is a view, also with 0 dimensions or 0 elements
    data = [array.reshape(-1).view("u1").data for _, _, array in entries if array.nbytes]
    return [memoryview(head), *data]


class Tensors(Mapping[str, "Array"]):
    """Tensors by name; a tensor of an unknown type is refused on access."""

    def __init__(self, found: Mapping[str, Array], refused: Mapping[str, str]) -> None:
        self.found = found
        self.refused = refused
        """The reason why each of these cannot be read."""

    def __getitem__(self, name: str) -> Array:
        if name in self.refused:
            raise ModelError(
                self.refused[name], "the other tensors can be read, each by its name: tensors[name]"
            )
        return self.found[name]

    def __contains__(self, name: object) -> bool:
        return name in self.found or name in self.refused

    def __iter__(self) -> Iterator[str]:
        return chain(self.found, self.refused)

    def __len__(self) -> int:
        return len(self.found) + len(self.refused)


def read(buffer: memoryview, what: str = "the file") -> Mapping[str, Array]:
    """Views of the tensors in the bytes of a safetensors file, read-only and without a copy.

    NumPy has no type for BF16 (and F8_…): such tensors come as their raw bits, in `uint16` (and
    `uint8`); `array.view(ml_dtypes.bfloat16)` or `torch.from_numpy(array).view(torch.bfloat16)`
    reads them. A tensor of a newer type is refused on access; the others are not affected. Raises
    ModelError, with `what` in its message, for bytes in another format, and where no tensor can be
    read.
    """
    import numpy as np

    buffer = buffer.toreadonly().cast("B")
    header, start = _header(buffer, what)
    found: dict[str, Array] = {}
    refused: dict[str, str] = {}
    ranges = []
    for name, entry in header.items():
        if name == _METADATA:
            continue
        code, shape, begin, end = _entry(name, entry, what)
        if code not in _DTYPES and end <= len(buffer) - start:
            refused[name] = (
                f"tensor {name!r} of {what} is of dtype {code:.40}, expected {', '.join(_DTYPES)}"
            )
            ranges.append((begin, end))
            continue
        dtype = np.dtype(_DTYPES.get(code, "u1"))
        if end - begin != math.prod(shape) * dtype.itemsize or end > len(buffer) - start:
            raise ModelError(
                f"tensor {name!r} of {what} is at bytes {begin} to {end}, expected "
                f"{math.prod(shape) * dtype.itemsize} bytes of the {len(buffer) - start} there are"
            )
        ranges.append((begin, end))
        data = buffer[start + begin : start + end]
        array: Array = np.frombuffer(data, dtype) if end > begin else _empty(dtype)
        found[name] = array.reshape(shape)
    at = 0
    for begin, end in sorted(ranges):
        if begin != at:
            raise ModelError(f"the tensors of {what} leave byte {min(at, begin)} to none or to two")
        at = end
    if start + at != len(buffer):
        raise ModelError(
            f"the tensors of {what} end at byte {start + at}, expected its {len(buffer)} bytes"
        )
    if refused and not found:
        raise ModelError(next(iter(refused.values())))
    return Tensors(found, refused) if refused else found


def _header(buffer: memoryview, what: str) -> tuple[dict[str, Any], int]:
    """The header and where the data begin."""
    length = int.from_bytes(buffer[:8], "little")
    if len(buffer) < 8 or length > min(len(buffer) - 8, _MAX_HEADER_BYTES):
        raise ModelError(
            f"{what} is no safetensors file: its {len(buffer)} bytes cannot hold a header of "
            f"{length}"
        )
    try:
        header = json.loads(bytes(buffer[8 : 8 + length]))
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"{what} is no safetensors file: its header is no JSON ({error})"
        ) from None
    if not isinstance(header, dict):
        raise ModelError(f"{what} is no safetensors file: its header is {type(header).__name__}")
    return header, 8 + length


def _entry(name: str, entry: Any, what: str) -> tuple[str, tuple[int, ...], int, int]:
    try:
        code, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        sound = (
            isinstance(code, str)
            and len(shape) <= _MAX_DIMENSIONS
            and all(type(number) is int and number >= 0 for number in (*shape, begin, end))
            and begin <= end
        )
    except (KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        raise ModelError(
            f"tensor {name!r} of {what} is declared as {entry!r:.200}, expected a dtype such "
            "as F32, a shape and data_offsets"
        )
    return code, shape, begin, end


def _storable(name: str, value: Any) -> tuple[str, Array]:
    """The format's name of the type, and the array in the format's order of bytes."""
    import numpy as np

    try:
        array = np.asarray(value)
    except Exception as error:  # tensors of other libraries raise what they like
        raise ModelError(
            f"tensor {name!r} is {type(value).__name__}, which cannot be read as an array: {error}",
            "of a torch tensor, give tensor.detach().cpu(); of bfloat16, .view(torch.int16)",
        ) from error
    dtype = array.dtype.newbyteorder("<")
    code = _CODES.get(dtype.str.lstrip("<|"))
    if code is None:
        raise ModelError(
            f"tensor {name!r} is {type(value).__name__} of dtype {array.dtype}, expected an array "
            f"of {', '.join(sorted(_CODES.values()))}",
            "convert it with astype(); a state dict is {name: array}",
        )
    # ascontiguousarray makes one dimension of none
    return code, np.ascontiguousarray(array, dtype).reshape(array.shape)


def _empty(dtype: np.dtype[Any]) -> Array:
    import numpy as np

    array: Array = np.empty(0, dtype)
    array.flags.writeable = False
    return array


_METADATA = "__metadata__"
_MAX_HEADER_BYTES = 100_000_000  # the library's own limit
_MAX_DIMENSIONS = 64  # NumPy's own
_DTYPES = {
    "BOOL": "?",
    "U8": "u1",
    "I8": "i1",
    "F8_E5M2": "u1",
    "F8_E4M3": "u1",
    "I16": "<i2",
    "U16": "<u2",
    "F16": "<f2",
    "BF16": "<u2",
    "I32": "<i4",
    "U32": "<u4",
    "F32": "<f4",
    "I64": "<i8",
    "U64": "<u8",
    "F64": "<f8",
    "C64": "<c8",
}
_CODES = {
    "b1": "BOOL",
    "u1": "U8",
    "i1": "I8",
    "i2": "I16",
    "u2": "U16",
    "f2": "F16",
    "i4": "I32",
    "u4": "U32",
    "f4": "F32",
    "i8": "I64",
    "u8": "U64",
    "f8": "F64",
    "c8": "C64",
}
