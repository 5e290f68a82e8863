"""A file system in user space that shows one directory of read-only files, as they were.

Run as `python serves.py FD`, with the files as JSON on standard input. Nothing that it answers may
be remembered, so that when it is stopped (SIGSTOP) every look hangs, as on a server that is gone.
"""

import errno
import json
import os
import stat
import struct
import sys

IN = struct.Struct("<IIQQIIIxxxx")
OUT = struct.Struct("<IiQ")
ATTR = struct.Struct("<6Q10I")
INIT, LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS = 26, 1, 2, 3, 14, 15, 17
OPENDIR, READDIR, BATCH_FORGET = 27, 28, 42
ROOT = 1


class Files:
    def __init__(self, files: dict[str, str]) -> None:
        self.names = sorted(files)
        self.contents = [files[name].encode() for name in self.names]

    def attributes(self, node: int) -> bytes:
        """Of the root, or of the file that comes so many nodes behind it."""
        if node == ROOT:
            size, mode, links = 0, stat.S_IFDIR | 0o755, 2
        else:
            size, mode, links = len(self.contents[node - 2]), stat.S_IFREG | 0o755, 1
        times = (0,) * 6
        return ATTR.pack(node, size, 1, *times[:3], *times[3:], mode, links, 0, 0, 0, 4096, 0)

    def answer(self, code: int, node: int, body: bytes) -> bytes | int:
        """What is said, or the errno."""
        if code == INIT:
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, 65536, 0, 12, 9, 65536, 1, 0, 0, 0)
        if code == LOOKUP:
            name = body.rstrip(b"\0").decode()
            if name not in self.names:
                return errno.ENOENT
            found = self.names.index(name) + 2
            return struct.pack("<QQQQII", found, 0, 0, 0, 0, 0) + self.attributes(found)
        if code == GETATTR:
            return struct.pack("<QII", 0, 0, 0) + self.attributes(node)
        if code in {OPEN, OPENDIR}:
            return struct.pack("<QII", 0, 0, 0)
        if code == READ:
            offset, size = struct.unpack_from("<8xQI", body)
            return self.contents[node - 2][offset : offset + size]
        if code == READDIR:
            (offset,) = struct.unpack_from("<8xQ", body)
            return b"" if offset else self.listing()
        if code == STATFS:
            return struct.pack("<5Q4I24x", 0, 0, 0, 0, 0, 4096, 255, 4096, 0)
        return errno.ENOSYS

    def listing(self) -> bytes:
        entries = b""
        for number, name in enumerate(self.names, 2):
            raw = name.encode()
            entry = struct.pack("<QQII", number, number, len(raw), stat.S_IFREG >> 12) + raw
            entries += entry + b"\0" * (-len(entry) % 8)
        return entries


def serve(device: int, files: Files) -> None:
    while True:
        try:
            asked = os.read(device, 1 << 17)
        except OSError as error:
            if error.errno == errno.ENODEV:  # unmounted
                return
            continue
        _, code, unique, node, *_ = IN.unpack_from(asked)
        if code in {FORGET, BATCH_FORGET}:
            continue
        said = files.answer(code, node, asked[IN.size :])
        status, body = (-said, b"") if isinstance(said, int) else (0, said)
        os.write(device, OUT.pack(OUT.size + len(body), status, unique) + body)


if __name__ == "__main__":
    serve(int(sys.argv[1]), Files(json.load(sys.stdin)))
