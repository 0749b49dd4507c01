"""Reports of a job: statistics, progress, its result, and tables of them."""
