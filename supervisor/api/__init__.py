"""Requests to values, values to documents. No I/O."""
