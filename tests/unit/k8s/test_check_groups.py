"""Groups of a cluster, and nodes for them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from k8s.check import groups
from k8s.check.finding import Lint
from tests.unit.k8s.broken import Documents, assert_found, cluster, group, pod


@pytest.mark.parametrize(
    ("lint", "break_it", "message"),
    [
        (
            groups.unique_groups,
            lambda eks: group(eks, "loaders").update(groupName="operators"),
            "2 groups are called 'operators'",
        ),
        (
            groups.fixed_size,
            lambda eks: cluster(eks).update(enableInTreeAutoscaling=True),
            "enableInTreeAutoscaling is true",
        ),
        (
            groups.fixed_size,
            lambda eks: group(eks).update(maxReplicas=9),
            "minReplicas, replicas and maxReplicas are [4, 4, 9]",
        ),
        (
            groups.ray_options,
            lambda eks: group(eks)["rayStartParams"].update({"objectstore-memory": "1"}),
            "rayStartParams has 'objectstore-memory', which `ray start` does not know",
        ),
        (
            groups.ray_options,
            lambda eks: group(eks)["rayStartParams"].update({"num-cpus": "1"}),
            "has both `resources` and ['num-cpus'] in rayStartParams",
        ),
        (
            groups.idle_head,
            lambda eks: group(eks, "head")["rayStartParams"].pop("num-cpus"),
            "the head has 2 CPUs for tasks, expected 0",
        ),
        (
            groups.one_per_node,
            lambda eks: pod(eks).pop("affinity"),
            "group operators: has no anti-affinity by kubernetes.io/hostname",
        ),
        (
            groups.one_per_node,
            lambda eks: group(eks)["template"]["metadata"]["labels"].pop("app.kubernetes.io/name"),
            "has no anti-affinity by kubernetes.io/hostname to Ray pods of its labels",
        ),
        (
            groups.spread,
            lambda eks: pod(eks).pop("topologySpreadConstraints"),
            "has no topologySpreadConstraint by zone",
        ),
    ],
)
def test_a_broken_manifest_is_found(
    eks: Documents, lint: Lint, break_it: Callable[[Documents], object], message: str
) -> None:
    assert_found(eks, lint, break_it, message)


def test_ray_knows_these_options() -> None:
    from ray.scripts.scripts import start

    known = {option for parameter in start.params for option in parameter.opts}
    assert {f"--{option}" for option in groups.RAY_OPTIONS} <= known
