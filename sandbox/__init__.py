"""Confines handlers and ends every process they start. Knows nothing of journals or calls."""
