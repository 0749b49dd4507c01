"""Messages between the driver and workers: descriptions of tasks, services, replies."""
