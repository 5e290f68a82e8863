"""Decisions, without I/O.

Nothing in here reads a clock, a file, a socket or the environment; import contracts
hold it to that. What time it is and what the disk said arrive as arguments.
"""
