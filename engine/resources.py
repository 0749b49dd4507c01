"""What tasks take of their node, by name: `cpus`, `gpus`, `memory` (bytes), and a cluster's own."""

from __future__ import annotations

from collections.abc import Iterable

SHARED_ANYWAY = frozenset({"cpus", "memory"})
"""Resources that processes of one machine share, whatever each asks for."""


def check_names(names: Iterable[str]) -> None:
    """Raise ValueError for a name that is none of a cluster's own, and looks like one of ours."""
    for name in names:
        meant = _MEANT.get(name.lower().rstrip("s"))
        if meant is not None and name != meant:
            raise ValueError(f"the resource {name!r}, expected {meant!r}")


_MEANT = {
    **{f"{prefix}{kind}": f"{kind}s" for kind in ("cpu", "gpu") for prefix in ("", "num_")},
    **dict.fromkeys(("memory", "object_store_memory"), "memory"),
}
