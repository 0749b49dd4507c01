"""Sources of columns from files, on disk and in S3; each needs PyArrow."""
