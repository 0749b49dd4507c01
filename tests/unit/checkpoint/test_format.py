"""A savepoint as it was written when its format was new: every later version reads it.

A change of the format adds one to `FORMAT`, and a folder beside this file, which this file writes
when it is run; those of former formats stay.
"""

from pathlib import Path

from engine.checkpoint import (
    CheckpointLog,
    Manifest,
    SnapshotWriter,
    TaskSnapshot,
    open_storage,
    plan_restore,
    read_snapshot,
)
from engine.checkpoint.manifest import FORMAT
from engine.state import KeyedState

FOLDER = Path(__file__).parent
COUNTS = {"to": 2, "be": 1.5, ("or", None): [True, b"\xff"], -3: {"not": "ä"}}
MORE = {number: number**9 for number in range(400)}
"""What there is beside, from format 3 on: where the last file has only what has changed."""
WORDS = ("words-ddd9c40767f9", "count", "lines")


def snapshots(counts=COUNTS):
    states = [
        KeyedState.share(
            [KeyedState.of(counts.items(), shared={"rule": 7}, own=(index, [index, "call"]))],
            index,
            2,
        )
        for index in range(2)
    ]
    for index in range(2):
        yield TaskSnapshot(
            vertex="words -> count -> lines",
            index=index,
            parallelism=2,
            chain=WORDS,
            operators={"count": states[index]},
            watermarks={"": 1_700_000_000_000_000 + index, "count": -(1 << 63)},
            positions={WORDS[0]: {index: (index, "file", b"\x00", None), index + 2: 5}},
            shares=4,
            prepared={"lines": [(6, f"part-{index}")]},
        )


def test_savepoint_of_every_format_is_read(tmp_path):
    folders = sorted(FOLDER.glob("format_*"))
    assert folders[-1].name == f"format_{FORMAT}"
    for folder in folders:
        storage = open_storage(folder)
        manifest = CheckpointLog(storage).savepoints()["kept"]
        assert (manifest.job, manifest.epoch, manifest.ended) == ("word-count", 7, 1e9 + 0.25)
        (task,) = plan_restore(manifest, [(WORDS, 0, 1)])
        read = [read_snapshot(storage, entry) for entry in task.entries]
        whole = KeyedState.share([each.operators["count"] for each in read], 0, 1)
        is_based = folder.name >= "format_3"
        assert all(len(entry.files) == 1 + is_based for entry in task.entries)
        assert dict(whole.items()) == ({**MORE, **COUNTS} if is_based else COUNTS)
        assert whole.shared == {"rule": 7}
        assert whole.own == [[0, "call"], [1, "call"]]
        for each, written in zip(read, snapshots(), strict=True):
            for name in ("vertex", "index", "chain", "watermarks", "positions", "prepared"):
                assert getattr(each, name) == getattr(written, name)
            assert (each.parallelism, each.shares, each.finished) == (2, 4, False)


def write() -> None:
    storage = open_storage(FOLDER / f"format_{FORMAT}")
    log = CheckpointLog(storage)
    log.delete_all()
    log.claim()
    tasks = []
    before = {**MORE, **dict.fromkeys(range(-20, 20), "before")}
    now = {**MORE, **COUNTS}
    for first, last in zip(snapshots(before), snapshots(now), strict=True):
        writer = SnapshotWriter(storage, 1)
        writer.write(6, first)
        tasks.append(writer.write(7, last))
    log.store(Manifest("word-count", 7, 1, tuple(tasks), "kept", started=1e9, ended=1e9 + 0.25))
    log.mark_committed(7)


if __name__ == "__main__":
    write()
