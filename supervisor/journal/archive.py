"""Move a file to another directory so that no crash loses it: there first, then not here.

Standard library only.
"""

from __future__ import annotations

import errno

from supervisor.journal.file import Os
from supervisor.journal.segments import write_whole

_CHUNK = 1 << 20
# Another file system, or one without hard links.
_NO_LINK = frozenset((errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS))


def set_aside(os_: Os, directory: int, place: int, name: str) -> None:
    """Durable in `place` before it is unlinked from `directory`, which is left to be synced.

    What a crash left half done is finished. Raises OSError with the file still in
    `directory`, also when `place` has another file of that name.
    """
    if not os_.exists(place, name):
        _bring(os_, directory, place, name)
    elif os_.read_cached(place, name) != os_.read_cached(directory, name):
        raise FileExistsError(errno.EEXIST, "another file of that name is there already", name)
    else:
        _sync(os_, place, name)
    os_.fsync(place)
    os_.unlink(directory, name)


def _bring(os_: Os, directory: int, place: int, name: str) -> None:
    try:
        os_.link(directory, name, place)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        _copy(os_, directory, place, name)
    else:
        _sync(os_, place, name)


def _sync(os_: Os, place: int, name: str) -> None:
    fd = os_.open(place, name)
    try:
        os_.fsync(fd)
    finally:
        os_.close(fd)


def _copy(os_: Os, directory: int, place: int, name: str) -> None:
    temporary = f"{name}.tmp"
    content = os_.read_disk(directory, name)
    if os_.exists(place, temporary):
        os_.unlink(place, temporary)
    fd = os_.open(place, temporary, create=True)
    try:
        for offset in range(0, len(content), _CHUNK):
            write_whole(os_, fd, content[offset : offset + _CHUNK], offset)
        os_.fsync(fd)
    finally:
        os_.close(fd)
    os_.rename(place, temporary, name)
