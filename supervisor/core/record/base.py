"""What every record is."""

from __future__ import annotations

import attrs

from supervisor.core.ids import OperationId


@attrs.frozen
class Record:
    """`at` is wall time; where a record has `mono` it is the same moment on the boot's clock."""

    at: int


@attrs.frozen
class OperationRecord(Record):
    operation_id: OperationId
