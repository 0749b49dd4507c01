"""What runs on a node beside the task: the worker that hosts one, and its process."""
