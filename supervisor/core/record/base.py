"""What every record is."""

from __future__ import annotations

from frozen import frozen
from supervisor.core.ids import OperationId


@frozen
class Record:
    """`at` is wall time; where a record has `mono` it is the same moment on the boot's clock."""

    at: int


@frozen
class OperationRecord(Record):
    operation_id: OperationId
