"""Concurrent calls of a coroutine function: an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any

from engine import console
from operators.map_async.pace import Pace
from operators.map_async.under_way import Call


class CallLoop:
    """Makes calls of a function, with up to `retries` further attempts each.

    An attempt waits for its turn if there is a `pace`. It fails if `retry_if` is true of its
    result, or after `timeout_seconds`, and is then cancelled; the loop does not wait for an
    attempt that ignores this. `on_done` is called in the thread of the loop. A function that is an
    async context manager is entered there before the first call, and left after the last.
    """

    def __init__(
        self,
        function: Any,
        on_done: Callable[[Call | None], None],
        timeout_seconds: float | None = None,
        retries: int = 0,
        retry_if: Callable[[Any], object] | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.failure: BaseException | None = None
        """The error that stopped all calls; `on_done` is then called with None."""
        self._function = function
        self._on_done = on_done
        self._timeout_seconds = timeout_seconds
        self._retries = retries
        self._retry_if = retry_if
        self._pace = pace
        self._tasks: set[asyncio.Task[Any]] = set()
        self._entered, self._left = asyncio.Event(), asyncio.Event()
        self._closing = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="oka-async", daemon=True)
        self._thread.start()

    def begin(self, calls: Iterable[Call]) -> None:
        """Begin these calls, in this order."""
        with suppress(RuntimeError):  # the loop has failed, and told so
            self._loop.call_soon_threadsafe(self._begin, calls)

    def close(self) -> None:
        """Cancel calls under way, and wait a moment for the thread's end; idempotent."""
        self._closing = True
        with suppress(RuntimeError):  # the thread has ended
            self._loop.call_soon_threadsafe(self._left.set)
        self._thread.join(_LONGEST_CLOSE_SECONDS)
        if self._thread.is_alive():
            raise TimeoutError(
                f"the event loop did not end in {_LONGEST_CLOSE_SECONDS:g} s: something blocks it"
                "\n\nhint: await what waits: asyncio.sleep(1), not time.sleep(1), and "
                "asyncio.to_thread(f) for what is no coroutine"
            )

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised in the thread of the task
            if self._closing:
                console.write(f"leaving an async context raised {type(error).__name__}: {error}\n")
            self.failure = error
        self._closing = True
        try:
            self._end()
        finally:
            self._on_done(None)

    async def _serve(self) -> None:
        manager = self._function if hasattr(self._function, "__aenter__") else None
        if manager is not None:
            self._function = await manager.__aenter__()
        self._entered.set()
        await self._left.wait()
        await _cancel(self._tasks)
        if manager is not None:
            await manager.__aexit__(None, None, None)

    def _end(self) -> None:
        """Close the loop, with tasks that the function has begun."""
        loop = self._loop
        left = asyncio.all_tasks(loop)
        self._complete(_cancel(left))
        for task in left:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # it ignores us
        self._complete(loop.shutdown_asyncgens())
        self._complete(loop.shutdown_default_executor())
        loop.close()

    def _complete(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run the loop until this is done, whatever other tasks raise meanwhile."""
        task = self._loop.create_task(coroutine)
        while not task.done():
            with suppress(BaseException):
                self._loop.run_until_complete(task)

    def _begin(self, calls: Iterable[Call]) -> None:
        for call in calls:
            self._keep(self._make(call))

    def _keep(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _make(self, call: Call) -> None:
        try:
            await self._entered.wait()
            call.result = await self._try(call.record)
        except BaseException as error:  # noqa: BLE001 - raised in the thread of the task
            if self._closing:
                return
            call.error = error
            if isinstance(error, asyncio.CancelledError):
                call.error = RuntimeError("the function was cancelled, and not by its operator")
                call.error.__cause__ = error
        call.done = True
        self._on_done(call)

    async def _try(self, record: Any) -> Any:
        pause = _FIRST_PAUSE_SECONDS
        for left in range(self._retries, -1, -1):
            try:
                if self._pace is not None:
                    now = self._loop.time()
                    await asyncio.sleep(self._pace.turn(now) - now)
                return self._checked(await self._attempt(record))
            except (Exception, asyncio.CancelledError):
                if self._closing or not left:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        raise AssertionError("the last attempt returns or raises")

    def _checked(self, result: Any) -> Any:
        """The result, unless it asks for another attempt."""
        if self._retry_if is not None and self._retry_if(result):
            raise ValueError(
                f"the function gave {result!r:.80} in the last of {self._retries + 1} attempts, "
                "expected a result that retry_if accepts"
            )
        return result

    async def _attempt(self, record: Any) -> Any:
        seconds = self._timeout_seconds
        if seconds is None:
            return await self._function(record)
        attempt = self._keep(_told(self._function, record))
        if not (await asyncio.wait((attempt,), timeout=seconds))[0]:
            await _cancel({attempt})
            raise TimeoutError(f"no result within {seconds:g} s")
        result, error = attempt.result()
        if error is not None:
            raise error
        return result


async def _told(function: Any, record: Any) -> tuple[Any, BaseException | None]:
    """The result or error of the call; some errors would end the event loop if not caught."""
    try:
        return await function(record), None
    except (Exception, KeyboardInterrupt, SystemExit) as error:  # noqa: BLE001 - handed on
        return None, error


async def _cancel(tasks: set[asyncio.Task[Any]]) -> None:
    """Cancel the tasks, and wait for their end: only a moment if they ignore it."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(set(tasks), timeout=_GRACE_SECONDS)


_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
_GRACE_SECONDS = 1.0
"""Seconds to wait for cancelled tasks."""
_LONGEST_CLOSE_SECONDS = 4.0
