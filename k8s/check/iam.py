"""What pods may do in S3: eksctl's role, as IAM would read it, and what jobs do there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from engine.errors import did_you_mean
from k8s.check.finding import Finding, either, note
from k8s.manifests import name, namespace, of_kind
from k8s.subject import Subject


def role(subject: Subject) -> Iterator[Finding]:
    """Pods with a job have a role; it lets each write its checkpoints, and the README's models.

    A role that the overlay names itself (`eks.amazonaws.com/role-arn`) nobody knows here.
    """
    if not subject.on_eks:
        return
    iam, where = subject.eks.get("iam", {}), "eks/cluster.yaml"
    accounts = {
        "{namespace}/{name}".format_map({"namespace": "", "name": "", **each["metadata"]}): each
        for each in iam.get("serviceAccounts", [])
    }
    others = [
        f"{namespace(each)}/{each['metadata']['name']}"
        for each in of_kind(subject.documents, "ServiceAccount")
        if each["metadata"].get("annotations")
    ]
    for each in iam.get("podIdentityAssociations", []):
        others.append(f"{each.get('namespace')}/{each.get('serviceAccountName')}")
    pods = {pod.account for pod in subject.pods if pod.group}
    for missing in sorted(pods - accounts.keys() - {*others}):
        hint = did_you_mean(missing, accounts) + _NO_ROLE
        yield note(where, f"makes no role for the service account {missing} of pods", hint)
    for account in sorted(pods & accounts.keys()):
        yield from _role(f"{where} {account}", accounts[account])
    for job, config in subject.configs:
        account = next(pod.account for pod in subject.pods if pod.owner is job.document)
        if account in accounts and (config.checkpoints or "").startswith("s3://"):
            bucket, _, prefix = str(config.checkpoints)[len("s3://") :].partition("/")
            if wrong := _refused(accounts[account], bucket, prefix.strip("/"), _CHECKPOINTS):
                problem = f"checkpoints are {config.checkpoints}, and the role refuses {wrong}"
                known = not {"attachPolicyARNs", "attachRoleARN"} & accounts[account].keys()
                yield either(not known, name(job.document), problem, _SEE)


def _role(where: str, account: Mapping[str, Any]) -> Iterator[Finding]:
    """Notes of a role that is at odds with itself, or with the README."""
    buckets: dict[str, set[str]] = {}
    for statement in _statements(account):
        for resource in _listed(statement.get("Resource")):
            bucket, _, key = resource.rpartition(":")[2].partition("/")
            if not fnmatchcase(resource, "arn:aws*:s3:::?*"):
                problem = f"Resource is {resource!r}, expected arn:aws:s3:::BUCKET/PREFIX/*"
                yield note(where, problem, "the pods need one bucket, not all of S3")
            else:
                buckets.setdefault(bucket, set()).update({key.rstrip("*/")} if key else ())
    for bucket, prefixes in buckets.items():
        for prefix in sorted(prefixes & _README.keys()):
            if wrong := _refused(account, bucket, f"{prefix}/a", _README[prefix]):
                yield note(where, f"no {wrong} below {prefix}/ of {bucket}", _SEE)
    for prefix in sorted(_README.keys() - set().union(*buckets.values())) if buckets else ():
        yield note(where, f"nothing below {prefix}/ can be used", "README puts it there")


def _refused(account: Mapping[str, Any], bucket: str, prefix: str, actions: tuple[str, ...]) -> str:
    """Those of the actions that no statement allows, or one denies."""

    def effects(action: str) -> set[Any]:
        resource = f"arn:aws:s3:::{bucket}" + ("" if action == _LIST else f"/{prefix}/object")
        return {
            statement.get("Effect")
            for statement in _statements(account)
            if any(fnmatchcase(action, each) for each in _listed(statement.get("Action")))
            and any(fnmatchcase(resource, each) for each in _listed(statement.get("Resource")))
            and (action != _LIST or _holds(statement, f"{prefix}/"))
        }

    return ", ".join(action for action in actions if effects(action) != {"Allow"})


def _holds(statement: Mapping[str, Any], prefix: str) -> bool:
    """Whether objects below the prefix may be listed."""
    conditions = (statement.get("Condition") or {}).values()
    wanted = [_listed(each.get("s3:prefix")) for each in conditions]
    return all(any(fnmatchcase(prefix, each) for each in found) for found in wanted if found)


def _statements(account: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = (account.get("attachPolicy") or {}).get("Statement") or []
    return found if isinstance(found, list) else [found]


def _listed(found: Any) -> list[str]:
    return [str(each) for each in (found if isinstance(found, list) else [found]) if each]


_LIST = "s3:ListBucket"
_CHECKPOINTS = (_LIST, "s3:GetObject", "s3:PutObject", "s3:DeleteObject")
_README = {
    "checkpoints": (*_CHECKPOINTS, "s3:AbortMultipartUpload"),
    "models": (_LIST, "s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"),
}
"""What pods do below the prefixes that README names."""
_NO_ROLE = "a pod without a role is refused by S3"
_SEE = "k8s/eks/cluster.yaml says which actions and prefixes jobs need"
