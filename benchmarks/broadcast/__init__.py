"""One model to tasks on several hosts, by channels, plasma and S3: `oka bench broadcast`."""
