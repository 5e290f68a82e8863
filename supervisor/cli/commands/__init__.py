"""effectctl's commands: one module a noun. They ask, and hand documents to the renderers."""
