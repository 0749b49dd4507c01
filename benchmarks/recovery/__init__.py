"""Checkpoints, failures, rescales and long runs: what they cost, and how long they take."""
