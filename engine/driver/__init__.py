"""The job master and its decisions: where tasks run, their next step, stored epochs."""
