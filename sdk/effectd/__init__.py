"""effectd's SDK: `effectd.client` for callers, `effectd.handler` for handler authors."""
