"""Rows of columns by their keys, as several operators keep them; each file needs PyArrow."""
