"""What README says, done: by the tests, and by `make first-hour` from a fresh clone."""
