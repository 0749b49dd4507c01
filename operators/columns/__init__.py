"""Rows of columns by key, for several operators; each file needs PyArrow."""
