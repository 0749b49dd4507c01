"""Models to broadcast: how each is prepared, loaded and run.

- `digits`: a small classifier, trained on the spot in a second or two; its answers can be checked.
- `speech`: Speech2Text with random weights of the real configuration, 564 MB in all.
- `synthetic:564MB`, `memory:564MB`: pseudorandom bytes, as files in a folder or in memory.
- a path, or `s3://bucket/prefix`: an existing folder or file.
"""

from pipelines.models.kind import Answer, Kind
from pipelines.models.names import kind_of

__all__ = ["Answer", "Kind", "kind_of"]
