"""A thread that asks the cluster, so that no other thread waits for the answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from engine.driver.launcher import DrainingNode, Launcher
from engine.errors import EngineError


class NodeWatch:
    """Reports which nodes of a launcher drain, each second as long as there are any, until `close`.

    Without an answer, as while the cluster's head is gone, it reports nothing, and asks again. It
    calls `lost` once if the driver's own node is gone, or the driver has left the cluster: the
    runtime may not report that to callers of a worker.
    """

    def __init__(
        self,
        launcher: Launcher,
        tell: Callable[[Sequence[DrainingNode]], None],
        lost: Callable[[EngineError], None],
    ) -> None:
        self._launcher = launcher
        self._tell, self._lost = tell, lost
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="oka-nodes", daemon=True)
        if launcher.has_draining:
            self._thread.start()

    def close(self) -> None:
        """Stop asking. A question without an answer yet is not waited for long."""
        self._closed.set()
        if self._thread.ident is not None:
            self._thread.join(_PATIENCE_SECONDS)

    def _run(self) -> None:
        had_any = False
        while not self._closed.wait(_PERIOD_SECONDS):
            try:
                nodes = self._launcher.draining()
            except EngineError as error:
                self._lost(error)
                return
            except Exception:  # noqa: BLE001, S112 - whatever the runtime raises while it is away
                continue
            if nodes or had_any:
                self._tell(nodes)
            had_any = bool(nodes)


_PERIOD_SECONDS = 1.0
_PATIENCE_SECONDS = 1.0
