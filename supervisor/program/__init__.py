"""Program documents: what one is, whether it is one, and what its expressions say. Pure.

Knows nothing of operations or journals: documents and values in, values and faults out.
"""

from supervisor.program.document import (
    Approve,
    Bind,
    CallTool,
    End,
    Node,
    Parallel,
    Place,
    Program,
)
from supervisor.program.expression import Faulty, Meter
from supervisor.program.reading import Fault, parse, program_of

__all__ = [
    "Approve",
    "Bind",
    "CallTool",
    "End",
    "Fault",
    "Faulty",
    "Meter",
    "Node",
    "Parallel",
    "Place",
    "Program",
    "parse",
    "program_of",
]
