"""Three small services that are the demo's outside world, each a process of its own on loopback."""
