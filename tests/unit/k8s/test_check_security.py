"""Pods of the restricted standard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from k8s.check import security
from k8s.check.finding import Lint
from tests.unit.k8s.broken import Documents, assert_found, container, pod


def context(documents: Documents) -> dict[str, Any]:
    found: dict[str, Any] = container(documents)["securityContext"]
    return found


@pytest.mark.parametrize(
    ("lint", "break_it", "message"),
    [
        (security.restricted, lambda eks: pod(eks).update(hostNetwork=True), "hostNetwork is true"),
        (
            security.restricted,
            lambda eks: pod(eks)["volumes"].append({"name": "x", "hostPath": {"path": "/"}}),
            "volume x is {'hostPath'}",
        ),
        (
            security.restricted,
            lambda eks: context(eks).update(privileged=True),
            "privileged is true",
        ),
        (
            security.restricted,
            lambda eks: context(eks).pop("allowPrivilegeEscalation"),
            "allowPrivilegeEscalation is not false",
        ),
        (
            security.restricted,
            lambda eks: context(eks).update(runAsNonRoot=False),
            "runAsNonRoot is not true",
        ),
        (
            security.restricted,
            lambda eks: context(eks).update(runAsUser=0),
            "runAsUser is 0, which is root",
        ),
        (
            security.restricted,
            lambda eks: context(eks)["capabilities"].pop("drop"),
            "capabilities.drop is None",
        ),
        (
            security.restricted,
            lambda eks: context(eks)["capabilities"].update(add=["SYS_ADMIN"]),
            "capabilities.add is ['SYS_ADMIN']",
        ),
        (
            security.restricted,
            lambda eks: context(eks)["seccompProfile"].update(type="Unconfined"),
            "seccompProfile is Unconfined",
        ),
        (
            security.read_only_root,
            lambda eks: context(eks).pop("readOnlyRootFilesystem"),
            "readOnlyRootFilesystem is not true",
        ),
        (
            security.read_only_root,
            lambda eks: container(eks)["volumeMounts"].pop(0),
            "has no emptyDir at /tmp",
        ),
        (
            security.read_only_root,
            lambda eks: container(eks)["env"].pop(0),
            "has no emptyDir at a HOME of its own",
        ),
        (
            security.no_rights,
            lambda eks: pod(eks).pop("serviceAccountName"),
            "has no service account of its own",
        ),
        (
            security.no_rights,
            lambda eks: pod(eks).update(automountServiceAccountToken=True),
            "automountServiceAccountToken is not false",
        ),
    ],
)
def test_a_broken_manifest_is_found(
    eks: Documents, lint: Lint, break_it: Callable[[Documents], object], message: str
) -> None:
    assert_found(eks, lint, break_it, message)
