"""The daemon: what it decides, what it writes down, and how it answers."""
