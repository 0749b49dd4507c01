"""HTTP servers beside a job: small, with a few threads, and quiet."""
