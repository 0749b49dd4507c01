"""Requests over HTTP, answered by Oka and by other servers in turn."""
