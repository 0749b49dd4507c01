"""Spans and patterns of event time by Oka and by other systems, over the same records."""
