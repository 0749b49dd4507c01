"""Single steps of a pipeline, measured alone: `python -m benchmarks.steps.codec` and others."""
