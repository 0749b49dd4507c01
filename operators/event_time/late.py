"""The side output of late records."""

LATE = "late"
"""The side output of records that came when event time had passed what they belong to."""
