"""One task at work: its loops, its chain of operators, its timers, snapshots and figures."""
