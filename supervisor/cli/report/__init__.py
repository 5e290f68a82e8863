"""A journal as one HTML page for a post-mortem: no script, nothing loaded from elsewhere."""
