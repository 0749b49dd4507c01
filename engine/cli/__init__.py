"""The command line: `oka run`, `oka plan`, `oka checkpoint` and what belongs to them."""
