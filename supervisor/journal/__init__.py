"""The append-only journal: the only truth the daemon has."""
