"""The job master and what it decides: where tasks run, what they do next, what is stored."""
