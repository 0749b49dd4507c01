"""One run of a case: start a server, put it under load, end it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.measurement import Case, Measurement, Run
from benchmarks.serve import clients
from benchmarks.serve.server import Server
from benchmarks.serve.systems import ServeCase, system_of

if TYPE_CHECKING:
    from benchmarks.peers.processes import Usage


def measure(case: Case, run: Run) -> Measurement:
    """Run it once. Raises RuntimeError if a request failed that should not."""
    assert isinstance(case, ServeCase)
    with Server(system_of(case), case.handler) as server:
        url = server.url + _QUERIES.get(case.handler, "")
        if run.warmup:
            clients.closed(url, case.clients, run.warmup)
        before = server.usage()
        if case.handler == "disconnects":
            return _disconnects(server, case, run, before)
        if run.rate is None:
            return _closed(server, url, case, run, before)
        return _open(server, url, case, run, before)


def _closed(server: Server, url: str, case: ServeCase, run: Run, before: Usage) -> Measurement:
    found = clients.closed(url, case.clients, run.seconds)
    return Measurement(
        found.requests / found.seconds,
        _cpu_per_million(server.usage(), before, found.requests),
        found.histogram,
        found.requests,
    )


def _open(server: Server, url: str, case: ServeCase, run: Run, before: Usage) -> Measurement:
    """Requests at a rate; above the capacity some may be refused."""
    assert run.rate is not None
    is_too_much = float(case.load) > 1
    connections = case.clients * (_OVERLOAD_CONNECTIONS if is_too_much else 1)
    found = clients.at_rate(url, run.rate, connections, run.seconds, run.seed)
    after = server.usage()
    failed = found.errors.count + found.other.count
    if not is_too_much:
        failed += found.refused.count + found.not_sent
    if failed or not found.answered.count:
        raise RuntimeError(
            f"of {found.arrived} requests {found.answered.count} were answered, "
            f"{found.refused.count} refused, {found.not_sent} not sent, {found.other.count} had "
            f"another status and {found.errors.count} no answer"
        )
    figures: dict[str, float] = {}
    if is_too_much:
        figures = {
            "refused_per_second": found.refused.per_second,
            "refused_p99_ms": found.refused.p99_ms,
            "not_sent": found.not_sent,
            **_kept(after, before),
        }
    return Measurement(
        found.answered.per_second,
        _cpu_per_million(after, before, found.answered.count + found.refused.count),
        found.answered.histogram,
        found.answered.count,
        figures=figures,
    )


def _disconnects(server: Server, case: ServeCase, run: Run, before: Usage) -> Measurement:
    """Clients that disconnect, the same number in each run; then the server must answer others."""
    per_second = clients.disconnects(server.url, DISCONNECTS, case.clients, run.seed)
    after = server.usage()
    found = clients.closed(server.url, case.clients, 1)
    return Measurement(
        per_second,
        _cpu_per_million(after, before, DISCONNECTS),
        found.histogram,
        DISCONNECTS,
        figures=_kept(server.usage(), before),
    )


def _kept(after: Usage, before: Usage) -> dict[str, float]:
    return {
        "memory_bytes_before": before.memory_bytes,
        "memory_bytes_after": after.memory_bytes,
        "descriptors_before": before.descriptors,
        "descriptors_after": after.descriptors,
    }


def _cpu_per_million(after: Usage, before: Usage, requests: int) -> float:
    return (after.cpu_seconds - before.cpu_seconds) / requests * 1e6


DISCONNECTS = 10_000
_OVERLOAD_CONNECTIONS = 4
"""For each client: a refused request frees its connection at once, others would use up all."""
_QUERIES = {"hops": "?user={n}"}
