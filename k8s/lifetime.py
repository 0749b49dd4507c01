"""The lifetime of a job: to its end or a deadline, or until somebody stops it."""

from __future__ import annotations

from engine.config import JobConfig
from engine.errors import ConfigError
from k8s.manifests import Cluster, Document
from k8s.options import Options


def set_lifetime(job: Document, options: Options) -> None:
    """Set the job's deadline, and how often it is run again."""
    spec = job["spec"]
    if options.endless:
        spec.pop("activeDeadlineSeconds", None)
        spec["backoffLimit"] = ENDLESS_RETRIES
    if options.deadline is not None:
        spec["activeDeadlineSeconds"] = options.deadline
    if options.retries is not None:
        spec["backoffLimit"] = options.retries
    # Each pod of the submitter that was evicted or has lost the head counts, for as long as one
    # cluster lives. Where the head is new, the next one runs the job again.
    submitter, retries = spec["submitterConfig"], spec["backoffLimit"]
    submitter["backoffLimit"] = max(submitter["backoffLimit"], retries) if retries else 0


def check_lifetime(job: Document, config: JobConfig, cluster: Cluster, options: Options) -> None:
    """Raise ConfigError if a job that is run again would not go on from a checkpoint."""
    _check_options(options)
    if config.checkpoints is None:
        for option in ("--endless",) * options.endless + ("--spot",) * options.spot:
            raise ConfigError(
                f"{option} and checkpoints is None, expected where to go on from",
                f"{option} --checkpoints s3://BUCKET/PREFIX",
            )
        return
    if config.resume != "latest" and job["spec"]["backoffLimit"]:
        told = f"resume is {config.resume!r} and the job is run again {_times(job)}"
        raise ConfigError(
            f"{told}, expected 'latest': {_AGAIN[config.resume is None]}",
            "--resume latest begins anew where there is no checkpoint yet"
            + ("" if options.endless else "; with --retries 0 nothing is run again"),
        )
    check_is_kept(config.checkpoints, cluster)


def check_is_kept(checkpoints: str, cluster: Cluster) -> None:
    """Raise ConfigError if the folder is removed with its pod."""
    if checkpoints.startswith("s3://"):
        return
    for group in cluster.groups:
        if group.replicas and not group.keeps(checkpoints):
            raise ConfigError(
                f"checkpoints is {checkpoints!r}, expected s3://… or a folder of a volume that all "
                f"pods share: in {group.where} it goes with the pod",
                "mount a PersistentVolumeClaim (ReadWriteMany) in an overlay of your own",
            )


def _check_options(options: Options) -> None:
    if options.endless and options.deadline is not None:
        raise ConfigError(
            f"--endless and --deadline {options.deadline}, expected one of them",
            "a job without end has no deadline",
        )


def _times(job: Document) -> str:
    times = job["spec"]["backoffLimit"]
    return "once" if times == 1 else f"{times} times"


ENDLESS_RETRIES = 100
"""The most clusters of a job without end: with one a week, two years."""
_AGAIN = {
    True: "with checkpoints there and no resume each retry would end at once",
    False: "each retry would go back to that one, or be refused",
}
