"""The demonstration: real providers, real kills, measured numbers. Run it with `./dev demo`."""
