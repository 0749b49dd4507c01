"""Objects of S3, written and read by many tasks: `oka bench s3`."""
