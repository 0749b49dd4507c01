"""The regression guard: `oka bench guard`, `oka bench instructions`, and the committed baseline."""
