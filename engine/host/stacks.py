"""A sampler of this process: it looks a hundred times a second where the threads of its task are.

It costs nothing while nobody asks. A thread is seen at work and where it waits, be it for records,
for room in a channel or for what a function calls. A look that comes late, since a function in C or
Rust holds the interpreter, counts for those that it missed. What runs in Rust is of its caller,
which `engine.task.native` names after the functions of users that run there.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

from engine.deployment.stacks import Stacks


def sampled(inside: CodeType, seconds: float) -> Stacks:
    """Look for so long at the thread that is in this function, and at others with user's code.

    Ends early with the function. Raises RuntimeError if no thread is in it, or somebody looks.
    """
    if not _ONE.acquire(blocking=False):
        raise RuntimeError("somebody looks at its functions already")
    try:
        found = _Found()
        pause = threading.Event()
        began = now = time.monotonic()
        periods = 1
        while found.look(inside, periods) and (left := began + seconds - now) > 0:
            pause.wait(min(left, _PERIOD_SECONDS))
            last, now = now, time.monotonic()
            periods = max(1, round((now - last) / _PERIOD_SECONDS))
        return found.told(now - began)
    finally:
        _ONE.release()


class _Found:
    """What was seen up to now."""

    def __init__(self) -> None:
        self._task: int | None = None
        """The thread of the task."""
        self._counts: Counter[tuple[int, ...]] = Counter()
        """By the ids of functions, the innermost first: to compare those themselves is slow."""
        self._names: dict[int, CodeType | str] = {}

    def look(self, inside: CodeType, times: int) -> bool:
        """Look once, and count it so many times; whether the task still runs."""
        frames = sys._current_frames()
        if self._task is None:
            own = (each for each, frame in frames.items() if _stack(frame, inside) is not None)
            self._task = next(own, None)
            if self._task is None:
                raise RuntimeError("it does not run now")
        stack = _stack(frames.get(self._task), inside)
        if stack is None:
            return False
        self._add(stack, times)
        for thread in threading.enumerate():
            if thread.name in _OF_USERS and (frame := frames.get(thread.ident or 0)) is not None:
                self._add([*(_stack(frame, None) or ()), _OF_USERS[thread.name]], times)
        return True

    def _add(self, stack: list[CodeType | str], times: int) -> None:
        self._names.update((id(each), each) for each in stack)
        self._counts[tuple(map(id, stack))] += times

    def told(self, seconds: float) -> Stacks:
        """All of it: at most so many stacks, and the others in one."""
        names = {key: _named(each) for key, each in self._names.items()}
        counts: Counter[str] = Counter()
        for stack, count in self._counts.items():
            counts[";".join(names[each] for each in reversed(stack))] += count
        kept: list[tuple[str, int]] = []
        left = _MOST_TEXT
        for text, count in counts.most_common(_MOST_STACKS):
            left -= len(text)
            if left < 0:
                break
            kept.append((text, count))
        total = counts.total()
        if others := total - sum(count for _, count in kept):
            kept.append((_OTHERS, others))
        return Stacks(round(seconds, 3), total, tuple(kept))


def _stack(frame: FrameType | None, inside: CodeType | None) -> list[CodeType | str] | None:
    """The functions that are called within this one; None if the frame is not."""
    found: list[CodeType | str] = []
    while frame is not None:
        if frame.f_code is inside:
            return found
        if len(found) < _DEEPEST:
            found.append(frame.f_code)
        elif len(found) == _DEEPEST:
            found.append(_DEEPER)
        frame = frame.f_back
    return found if inside is None else None


def _named(code: CodeType | str) -> str:
    """The function, as it is shown."""
    if isinstance(code, str):
        return code
    file = code.co_filename
    folders = [each for each in (*sys.path, str(Path.cwd())) if file.startswith(f"{each}/")]
    file = file[len(max(folders, key=len, default="")) :].removeprefix("/" if folders else "")
    name = getattr(code, "co_qualname", "").rpartition("<locals>.")[2]  # of Python 3.11 on
    name = name if name.endswith(code.co_name) else code.co_name
    text = f"{name} ({file}:{code.co_firstlineno})"
    return "".join(each if each.isprintable() and each != ";" else "?" for each in text)


_ONE = threading.Lock()
_PERIOD_SECONDS = 0.01
_OF_USERS = {"oka-source": "(reads ahead of the task)", "oka-async": "(calls of coroutines)"}
"""Other threads that run code of the user's, and what stands for them."""
_DEEPEST = 80
"""Functions of a stack that are kept, the innermost ones."""
_DEEPER = "(deeper than is kept)"
_MOST_STACKS = 2000
_MOST_TEXT = 500_000
"""Characters of all stacks."""
_OTHERS = "(others)"
