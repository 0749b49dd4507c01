"""A task that begins in a source: its loop, and the shares or partitions that it reads."""
