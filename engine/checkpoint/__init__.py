"""Checkpoints of a job in a folder or in S3: tasks as they were at a barrier, epoch by epoch.

`Storage` holds files by name, `snapshot` is one task's files, `manifest` says which of them are an
epoch, `CheckpointLog` orders epochs and drivers, `plan_restore` gives tasks what they go on with.
Nothing here knows how a job runs.
"""

from engine.checkpoint.log import CheckpointLog, Claim
from engine.checkpoint.manifest import Manifest, SnapshotEntry, SnapshotFile
from engine.checkpoint.place import open_storage
from engine.checkpoint.reach import check_reach
from engine.checkpoint.requests import Answer, Request, Requests
from engine.checkpoint.restore import RestoredTask, plan_restore
from engine.checkpoint.snapshot import SnapshotWriter, TaskSnapshot, read_snapshot
from engine.checkpoint.storage import Storage

__all__ = [
    "Answer",
    "CheckpointLog",
    "Claim",
    "Manifest",
    "Request",
    "Requests",
    "RestoredTask",
    "SnapshotEntry",
    "SnapshotFile",
    "SnapshotWriter",
    "Storage",
    "TaskSnapshot",
    "check_reach",
    "open_storage",
    "plan_restore",
    "read_snapshot",
]
