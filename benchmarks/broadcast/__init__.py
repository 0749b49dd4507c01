"""One model to several tasks on several hosts, by channels, plasma and S3: `oka bench broadcast`."""
