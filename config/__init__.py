"""Configuration and manifests, as checked values. Knows nothing of the daemon."""
