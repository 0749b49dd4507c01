"""The size of a job's cluster: pods of each group, and the memory of a pod.

The code that places the tasks of a running job places them here, too, to count pods.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from engine.config import JobConfig
from engine.errors import PlacementError
from engine.graph.execution import ExecutionGraph
from engine.graph.job import JobVertex
from engine.placement.nodes import Node
from engine.placement.place import place
from engine.plan import Plan


def pods_needed(plan: Plan, shapes: Mapping[str, Mapping[str, float]]) -> dict[str, int]:
    """The least number of pods of each group that the job's tasks need.

    `shapes` are the Ray resources of one pod of each group. Raises PlacementError if the tasks fit
    on no number of such pods.

    It starts with enough nodes for each vertex on every group that can host it, and removes pods,
    group by group, while all tasks still find a place.
    """
    counts = {
        group: sum(
            _pods_for(vertex.parallelism, vertex.resources, shape) for vertex in _vertices(plan)
        )
        for group, shape in shapes.items()
    }
    _place(plan, shapes, counts)
    for group in sorted(counts, key=lambda group: (len(shapes[group]), group)):
        fewest, enough = 0, counts[group]
        while fewest < enough:
            middle = (fewest + enough) // 2
            if _fits(plan, shapes, {**counts, group: middle}):
                enough = middle
            else:
                fewest = middle + 1
        counts[group] = enough
    return counts


def pod_memory(slots: int, channels: int, config: JobConfig, shared_memory: int) -> int:
    """Bytes that a worker pod needs for so many tasks with so many channels each, in whole GiB.

    `shared_memory` is its /dev/shm: plasma, and as much again for Oka's rings and large values.
    """
    task = TASK_BYTES + channels * (config.channel_window_bytes + config.send_buffer_bytes)
    return math.ceil((RAY_BYTES + slots * task + shared_memory) / _GIB) * _GIB


def most_channels(graph: ExecutionGraph) -> int:
    """The most channels of a task, in and out."""
    ends = Counter(end for channel in graph.channels for end in (channel.source, channel.target))
    return max(ends.values(), default=0)


def _vertices(plan: Plan) -> tuple[JobVertex, ...]:
    return plan.execution.job.vertices


def _pods_for(tasks: int, needed: Mapping[str, float], pod: Mapping[str, float]) -> int:
    fit = min(
        (pod.get(name, 0.0) / amount for name, amount in needed.items() if amount > 0),
        default=math.inf,
    )
    return 0 if fit < 1 else math.ceil(tasks / math.floor(min(fit, tasks)))


def _fits(plan: Plan, shapes: Mapping[str, Mapping[str, float]], counts: Mapping[str, int]) -> bool:
    try:
        _place(plan, shapes, counts)
    except PlacementError:
        return False
    return True


def _place(
    plan: Plan, shapes: Mapping[str, Mapping[str, float]], counts: Mapping[str, int]
) -> None:
    """Place the tasks on the pods, and on the head, which is a Ray node without resources."""
    nodes = [Node("head", "", {})]
    nodes += [
        Node(f"{group}-{number}", "", shapes[group])
        for group, count in counts.items()
        for number in range(count)
    ]
    place(plan.execution, nodes, plan.config.placement, plan.config.strict_placement)


_GIB = 1024**3
RAY_BYTES = _GIB
"""Memory of the raylet and its agents in a worker pod."""
HEAD_BYTES = 3 * _GIB // 2
"""Memory of Ray's head, the dashboard and the driver of a job."""
TASK_BYTES = 384 * 1024**2
"""Memory of a task; Python, NumPy, PyArrow and Ray's worker are about 250 MiB of it."""
