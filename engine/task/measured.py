"""Measurements of a task, by the names of its metrics."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping
from typing import Any

from engine.deployment.services import Services
from engine.graph.watermark import START_OF_TIME
from engine.metric import together
from engine.network import NetworkStatistics
from engine.task.chain import Chain


def measured(
    network: NetworkStatistics, services: Services, chain: Chain, cpu_seconds: float
) -> dict[str, Any]:
    """The metrics of a task up to now; `cpu_seconds` is the CPU time that it has taken."""
    process = {
        "cpu_seconds": cpu_seconds,
        "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    return together(
        [process, _of_network(network), _of_time(chain), *services.metrics(), *chain.metrics()]
    )


def _of_time(chain: Chain) -> Mapping[str, Any]:
    watermark = chain.watermark
    behind = 0.0 if watermark == START_OF_TIME else time.time() * 1e3 - watermark / 1e3
    return {"watermark_lag_ms": max(0.0, behind)}


def _of_network(network: NetworkStatistics) -> Mapping[str, Any]:
    inputs, outputs = network.inputs, network.outputs
    interruptions = (output.longest_interruption_seconds for output in outputs)
    uncertainties = (output.clock_uncertainty_seconds for output in outputs)
    return {
        "backlog_bytes": network.backlog_bytes,
        "input_backlog_bytes": sum(each.backlog_bytes for each in inputs),
        "sent_bytes": sum(output.bytes for output in outputs),
        "received_bytes": sum(each.bytes for each in inputs),
        "reconnects": sum(output.reconnects for output in outputs),
        "retransmitted_frames": sum(output.retransmitted_frames for output in outputs),
        "longest_interruption_ms": 1e3 * max(interruptions, default=0.0),
        "clock_uncertainty_us": 1e6 * max(uncertainties, default=0.0),
        "refused_connections": network.refused_connections,
        "dropped_messages": network.dropped_messages,
        "checkpoint_alignment_ms": 1e3 * network.longest_barrier_wait_seconds,
    }
