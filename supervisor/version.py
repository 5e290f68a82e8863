"""What this version is called, and what its API can do."""

VERSION = "0.1.0"
FEATURES = (
    *("dispatch", "sessions", "programs", "approvals", "open"),
    *("resume", "reconcile", "resolve", "events"),
)
