"""What programs of several folders import: settings, clocks, Flink's jar."""
