"""A job's reservations in a Ray cluster: a placement group for its tasks on each node.

Ray reserves a group as a whole or not at all. So two jobs that start at once do not get half of
their actors each. A group also needs an answer of its node. So no task starts on a node that is
gone without Ray's notice. Where there is no room, a group without nodes stands for the tasks: Ray's
autoscaler sees it.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray._private.ray_constants import DEBUG_AUTOSCALING_STATUS
from ray._private.state import available_resources_per_node, state
from ray.exceptions import RpcError
from ray.experimental import internal_kv
from ray.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from engine.deployment.description import TaskDescription
from engine.driver.placing import Waits
from engine.driver.ray.address import by_client
from engine.driver.ray.connection import RAY_NAMES, check_cluster
from engine.errors import DriverLost, PlacementError
from engine.placement.nodes import Node, add_to, total
from engine.placement.shortage import shortage, waiting_for


class Reservations:
    """The reservations of one job. Call `reserve` until all tasks have one."""

    def __init__(self) -> None:
        self.doubtful: set[str] = set()
        """Ids of nodes that were out of reach when something was last asked of them."""
        self._groups: list[_Group] = []
        self._pending: list[_Group] = []
        """The groups whose nodes have not answered yet."""
        self._wanted: set[int] = set()
        """The tasks of the pending groups; some may have their resources already."""
        self._demand: PlacementGroup | None = None
        self._vain: frozenset[str] | None = None
        """The nodes with which Ray found room for a demand that the placement could not use."""
        self._patience = _PATIENCE_SECONDS
        self._until = self._resume = 0.0

    def held(self) -> Iterator[tuple[str, TaskDescription]]:
        """The tasks for which something is reserved, each with the id of its node."""
        return ((each.node.id, task) for each in self._groups for task in each.users)

    def strategy(self, task: int) -> PlacementGroupSchedulingStrategy:
        """The scheduling strategy with which Ray starts the task's actor in its reservation."""
        group = self._group_of(task)
        assert group is not None
        return PlacementGroupSchedulingStrategy(group.group, group.numbers[task])

    def reserve(
        self,
        tasks: Sequence[TaskDescription],
        nodes: Callable[[], Sequence[Node]],
        choose: Callable[[Sequence[Node]], Mapping[int, Node]],
        in_doubt: Collection[int] | None,
    ) -> Mapping[int, Node] | Waits:
        """Reserve the tasks' resources and return their nodes, or what it waits for.

        `in_doubt` are tasks whose last node may not answer any more. None: all tasks are at work
        and keep their reservations until `leave`.
        """
        wanted = {task.id for task in tasks}
        if wanted != self._wanted:
            self._give_up()  # another task has lost its worker meanwhile
        answer = self._look(wanted) if self._pending else None
        if answer is not None and not self._is_on_doubtful():
            return answer
        if time.monotonic() < self._resume:
            return Waits("waiting for room")
        self._leave_doubtful(wanted, in_doubt or ())
        there = nodes()
        try:
            chosen = choose(there)
        except PlacementError as error:
            self._give_up()
            self.ask_for(tasks, there)
            return Waits(self._words(tasks, there), error)
        if answer is not None and all(
            chosen[task.id].id == each.node.id for each in self._pending for task in each.users
        ):
            return answer  # there is still no better one
        self._give_up()
        self.drop_demand()
        self._wanted = wanted
        self._begin(tasks, chosen, beside=in_doubt is None)
        return self._look(wanted) or Waits("waiting for room")

    def leave(self, task: int, node: Node) -> None:
        """Give back the task's reservation on this node, if it has one on another node, too."""
        groups = [each for each in self._groups if task in self._users([each])]
        for group in groups if len(groups) > 1 else ():
            if group.node.id == node.id:
                group.remove_user(task)
        self._remove_unused()

    def ask_for(self, tasks: Sequence[TaskDescription], nodes: Sequence[Node]) -> None:
        """Tell Ray's autoscaler the tasks' resources, as long as Ray finds no room for them."""
        ids = frozenset(node.id for node in nodes)
        if self._demand is None and ids != self._vain:
            needed = [bundle for task in tasks if (bundle := ray_amounts(task.resources))]
            self._demand = placement_group(needed, "PACK") if needed else None
        elif self._demand is not None and _is_ready(self._demand):
            self.drop_demand()
            self._vain = ids

    def drop_demand(self) -> None:
        """Withdraw the demand: all tasks have their resources."""
        if self._demand is not None:
            remove_placement_group(self._demand)
            self._demand = None

    def release(self) -> None:
        """Give everything back; it is free for the next job when this returns."""
        held = [(node_id, ray_amounts(task.resources)) for node_id, task in self.held()]
        try:
            before = free(_PATIENCE_AT_END_SECONDS)
        except (DriverLost, RpcError):
            return  # it has ended with the cluster
        self.drop_demand()
        for group in (*self._groups, *self._pending):
            group.remove()
        self._groups, self._pending = [], []
        for node_id, amounts in held:
            add_to(before.get(node_id, {}), amounts)
        deadline = time.monotonic() + _RELEASE_SECONDS
        while held and time.monotonic() < deadline:
            now = free()
            held = [
                (node_id, amounts)
                for node_id, amounts in held
                if node_id in now and not _has(now[node_id], before[node_id], amounts)
            ]
            time.sleep(0.01 if held else 0.0)

    def _look(self, wanted: set[int]) -> Mapping[int, Node] | Waits | None:
        """The state of the pending groups; None where nodes have to be chosen."""
        all_of_them = {*self._users(self._groups), *self._users(self._pending)}
        deadline, pause = time.monotonic() + _ANSWER_SECONDS, 0.005
        late = self._pending
        while (late := [each for each in late if not _is_ready(each.group)]) and (
            time.monotonic() < deadline
        ):
            time.sleep(pause)
            pause *= 2
        if not late:
            self._groups += self._pending
            self._pending, self._patience = [], _PATIENCE_SECONDS
            nodes = {task.id: each.node for each in self._groups for task in each.users}
            self.doubtful -= {nodes[task].id for task in wanted}
            return {task: nodes[task] for task in wanted}
        names = ", ".join(sorted({each.node.name for each in late}))
        count = f"{len(all_of_them - {*self._users(late)})} of {len(all_of_them)} workers"
        there_is = free()
        if any(not _has(there_is.get(each.node.id, {}), each.needed()) for each in late):
            # Another job was faster. A second try at once may meet it again.
            self._resume = time.monotonic() + random.uniform(0.0, 0.3)
            self._give_up()
        elif time.monotonic() >= self._until and not self._is_on_doubtful():
            self.doubtful |= {each.node.id for each in late}
            self._patience *= 2
            self._give_up()
        return Waits(f"{count}, waiting for {names} to answer")

    def _is_on_doubtful(self) -> bool:
        """Whether a pending group is on a node that may never answer: any other is better."""
        return any(each.node.id in self.doubtful for each in self._pending)

    def _give_up(self) -> None:
        for group in self._pending:
            group.remove()
        self._pending = []

    def _remove_unused(self) -> None:
        for group in [each for each in self._groups if not each.users]:
            self._groups.remove(group)
            group.remove()

    def _users(self, groups: Sequence[_Group]) -> Iterator[int]:
        return (task.id for each in groups for task in each.users)

    def _group_of(self, task: int) -> _Group | None:
        return next((each for each in self._groups[::-1] if task in self._users([each])), None)

    def _leave_doubtful(self, wanted: set[int], in_doubt: Collection[int]) -> None:
        """Give back groups on nodes that no other task of the job shows to be alive."""
        proven = {each.node.id for each in self._groups if {*self._users([each])} - wanted}
        for group in [*self._groups]:
            if group.node.id not in proven and not {*self._users([group])}.isdisjoint(in_doubt):
                self.doubtful.add(group.node.id)
                self._groups.remove(group)
                group.remove()

    def _begin(
        self, tasks: Sequence[TaskDescription], chosen: Mapping[int, Node], *, beside: bool
    ) -> None:
        """Reserve the resources of the tasks that have none yet."""
        there: dict[str, list[TaskDescription]] = {}
        for task in tasks:
            group = self._group_of(task.id)
            if group is not None and group.node.id == chosen[task.id].id:
                continue
            if group is not None and not beside:
                group.remove_user(task.id)
            there.setdefault(chosen[task.id].id, []).append(task)
        self._remove_unused()
        self._until = time.monotonic() + self._patience
        self._pending = [_Group.of(chosen[tasks[0].id], tasks) for tasks in there.values()]

    def _words(self, tasks: Sequence[TaskDescription], nodes: Sequence[Node]) -> str:
        """The number of possible workers, and what the others lack."""
        wanted = {task.id for task in tasks}
        others = [(node_id, task) for node_id, task in self.held() if task.id not in wanted]
        left = {node.id: dict(node.resources) for node in nodes}
        for node_id, task in others:
            add_to(left.get(node_id, {}), task.resources, -1.0)
        placed, lacking = shortage([task.resources for task in tasks], list(left.values()))
        count = f"{len(others) + placed} of {len(others) + len(tasks)} workers"
        return f"{count}, waiting for {waiting_for(lacking) if lacking else 'another node'}"


@dataclass(eq=False)
class _Group:
    """A reservation on one node, with a bundle for each task."""

    group: PlacementGroup
    node: Node
    numbers: Mapping[int, int]
    """The numbers of the bundles, by the task's id."""
    users: list[TaskDescription]
    """The tasks that still use it."""

    @classmethod
    def of(cls, node: Node, tasks: Sequence[TaskDescription]) -> _Group:
        # No bundle may be empty: a task without needs gets a little of the node's own resource.
        bundles = [ray_amounts(task.resources) or {f"node:{node.address}": 0.001} for task in tasks]
        there = [{_NODE_ID: node.id}] * len(tasks)
        group = placement_group(bundles, "PACK", bundle_label_selector=there)
        return cls(group, node, {task.id: n for n, task in enumerate(tasks)}, list(tasks))

    def needed(self) -> dict[str, float]:
        """The resources that it takes from the node."""
        return total(ray_amounts(task.resources) for task in self.users)

    def remove_user(self, task: int) -> None:
        """End the task's use of the group."""
        self.users = [each for each in self.users if each.id != task]

    def remove(self) -> None:
        """Give the group back; its actors end."""
        remove_placement_group(self.group)


def ray_amounts(resources: Mapping[str, float]) -> dict[str, float]:
    """The amounts that are not zero, by Ray's names."""
    return {RAY_NAMES.get(name, name): amount for name, amount in resources.items() if amount}


def free(patience: float = 60.0) -> dict[str, dict[str, float]]:
    """The free resources of each living node, by its id; DriverLost as `check_cluster`."""
    check_cluster(patience)
    return dict(_there(_free))


def kinds() -> list[dict[str, float]] | None:
    """Resources of the kinds of nodes that Ray can start; None where they are unknown."""
    found: list[dict[str, float]] | None = _there(_kinds)
    return found


def _there(function: Callable[[], Any]) -> Any:
    """The function's result in a process of the cluster, which Ray's client is not."""
    return ray.get(ray.remote(num_cpus=0)(function).remote()) if by_client() else function()


def _free() -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = available_resources_per_node()  # type: ignore[no-untyped-call]
    return found


def _kinds() -> list[dict[str, float]] | None:
    config = state.get_cluster_config()
    if config is not None and config.node_group_configs:
        return [dict(group.resources) for group in config.node_group_configs if group.max_count]
    # A head may start before its workers, and an autoscaler may run that reports no types.
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return None
    status = internal_kv._internal_kv_get(DEBUG_AUTOSCALING_STATUS)
    report = json.loads(status).get("autoscaler_report") if status else None
    types = [] if report is None else report["active_nodes"]
    # Without an autoscaler, Ray reports each node as a type of its own, by this name.
    return [] if all(name.startswith("node_") for name in types) else None


def _has(
    there_is: Mapping[str, float], needed: Mapping[str, float], names: Collection[str] = ()
) -> bool:
    """Whether the amounts are equal, for the given names or for all."""
    return all(
        there_is.get(name, 0.0) >= needed.get(name, 0.0) - _ROUNDING for name in names or needed
    )


def _is_ready(group: PlacementGroup) -> bool:
    return bool(placement_group_table(group)["state"] == "CREATED")


_NODE_ID = "ray.io/node-id"
_ANSWER_SECONDS = 0.3
"""Seconds to wait at once for answers of nodes, which take some 20 ms."""
_PATIENCE_SECONDS = 3.0
"""Seconds that nodes get to answer at first."""
_RELEASE_SECONDS = 0.5
_PATIENCE_AT_END_SECONDS = 10.0
_ROUNDING = 1e-6
