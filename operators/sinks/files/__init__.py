"""Sinks of files: which files there are, their places, what writes them, and the formats.

`file_sink` is what all of them share, `file_writer` writes one task's files, `places` are folders
and prefixes in S3; `text_files`, `csv_files` and `parquet` are the formats that users name.
"""
