"""effectd's SDK: `effectd.client` to call, `effectd.handler` to be called, `effectd.testing`."""
