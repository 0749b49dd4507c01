"""Access of pods to S3: eksctl's role, as IAM would read it, and the needs of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from engine.errors import did_you_mean
from k8s.check.finding import Finding, say
from k8s.manifests import Pod, node_of
from k8s.subject import Subject


def role(subject: Subject) -> Iterator[Finding]:
    """Pods with a job have a role; it lets each write its checkpoints, and the README's models.

    A role that the overlay names itself (`eks.amazonaws.com/role-arn`) is unknown here.
    """
    if all(node_of(each.document) for each in subject.clusters):
        return  # no pod has a node of eksctl's
    iam, where = subject.eks.get("iam", {}), "eks/cluster.yaml"
    accounts = {_account(each["metadata"]): each for each in iam.get("serviceAccounts", [])}
    elsewhere = {_account(each) for each in iam.get("podIdentityAssociations", [])}
    metadata = [each["metadata"] for each in subject.of_kind("ServiceAccount")]
    elsewhere |= {_account(each) for each in metadata if each.get("annotations")}
    pods = {pod.account for pod in subject.pods if pod.group}
    for missing in sorted(pods - accounts.keys() - elsewhere):
        yield say("no-role", where, account=missing, alike=did_you_mean(missing, accounts))
    for account in sorted(pods & accounts.keys()):
        yield from _role(f"{where} {account}", accounts[account])
    for cluster, config in subject.settled:
        scheme, _, path = (config.checkpoints or "").partition("://")
        pod = next(each for each in subject.pods if each.owner is cluster.document)
        given = accounts.get(pod.account)
        if given is not None and scheme == "s3":
            bucket, _, prefix = path.partition("/")
            if wrong := _refused(given, bucket, prefix.strip("/"), _CHECKPOINTS):
                has_more, url = bool(_MORE & given.keys()) or _has_keys(pod), config.checkpoints
                yield say("role-refuses", cluster.owner, has_more, url=url, actions=wrong)


def _account(named: Mapping[str, str]) -> str:
    called = named.get("serviceAccountName", named.get("name"))
    return f"{named.get('namespace', 'default')}/{called}"


def _role(where: str, account: Mapping[str, Any]) -> Iterator[Finding]:
    """Notes of a role that contradicts itself, or the README."""
    buckets = set()
    for each in (each for said in _statements(account) for each in _listed(said.get("Resource"))):
        buckets.add(_name(each).partition("/")[0])
        if not fnmatchcase(each, "arn:aws*:s3:::?*"):
            yield say("no-arn", where, resource=each)
    for prefix, actions in _README.items() if buckets else ():
        wrong = {_refused(account, each, f"{prefix}/a", actions): each for each in sorted(buckets)}
        if least := min(wrong, key=len):
            bucket = wrong[least]
            yield say("role-too-small", where, actions=least, prefix=prefix, bucket=bucket)


def _refused(account: Mapping[str, Any], bucket: str, prefix: str, actions: tuple[str, ...]) -> str:
    """The actions that no statement allows, or that one denies."""

    def effects(action: str) -> set[Any]:
        resource = bucket + ("" if action == _LIST else f"/{prefix}/object")
        return {
            said.get("Effect")
            for said in _statements(account)
            if _is_one(action.lower(), (each.lower() for each in _listed(said.get("Action"))))
            and _is_one(resource, map(_name, _listed(said.get("Resource"))))
            and (action != _LIST or _holds(said, f"{prefix}/"))
        }

    return ", ".join(action for action in actions if effects(action) != {"Allow"})


def _holds(statement: Mapping[str, Any], prefix: str) -> bool:
    """Whether objects below the prefix may be listed; only StringLike takes `*`."""
    for how, condition in (statement.get("Condition") or {}).items():
        wanted = _listed(condition.get("s3:prefix"))
        if wanted and not (_is_one(prefix, wanted) if "Like" in how else prefix in wanted):
            return False
    return True


def _has_keys(pod: Pod) -> bool:
    """Whether its variables may name another S3, or its own keys."""
    names = str([each["name"] for each in pod.containers[0].get("env", ())])
    return "envFrom" in pod.containers[0] or any(each in names for each in _KEYS)


def _is_one(found: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(found, each) for each in patterns)


def _name(arn: str) -> str:
    return arn.rpartition(":")[2]


def _statements(account: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found: Any = (account.get("attachPolicy") or {}).get("Statement") or []
    return found if isinstance(found, list) else [found]


def _listed(found: Any) -> list[str]:
    return [str(each) for each in (found if isinstance(found, list) else [found]) if each]


_LIST = "s3:ListBucket"
_CHECKPOINTS = (_LIST, "s3:GetObject", "s3:PutObject", "s3:DeleteObject")
_README = {
    "checkpoints": (*_CHECKPOINTS, "s3:AbortMultipartUpload"),
    "models": (_LIST, "s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"),
}
"""The actions of pods below the prefixes of the README."""
_MORE = {"attachPolicyARNs", "attachRoleARN", "wellKnownPolicies"}
"""Other fields in which eksctl finds the permissions of a role."""
_KEYS = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_PROFILE")
