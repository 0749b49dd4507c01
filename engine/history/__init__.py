"""The history of a job: one bounded file that tells what it did, written while it runs."""
