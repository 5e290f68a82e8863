"""Why a handler was denied something, exactly: its trace read, judged and turned into a remedy."""
