"""What the driver and workers say to each other: descriptions of tasks, services, replies."""
