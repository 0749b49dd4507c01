"""The metrics of tasks and of jobs."""
