"""What a job tells of itself: statistics, progress, its result, and tables of them."""
