"""Expressions over Arrow's columns: each step for all rows of a batch at once; needs PyArrow."""
