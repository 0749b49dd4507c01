"""Word counts by Oka and by other systems, at full speed and at a rate."""
