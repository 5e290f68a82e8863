"""Verify a journal with nothing but this directory's parents and a bare Python 3.11.

    python3 -I -S PLACE/supervisor/journal DIRECTORY [--anchor FILE] [--require chain]

So a copied journal can be checked on any host, with a copied `supervisor/`.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    if not __package__:
        # Run as a directory: the interpreter put this one first, and imports need its root.
        sys.path[0] = str(Path(__file__).resolve().parents[2])
    from supervisor.journal.verify import main

    sys.exit(main())
