"""Contents are the same bytes wherever they are."""

from __future__ import annotations

from supervisor.core.contents import Contents


def test_they_are_put_somewhere_once_and_read_from_there():
    contents, put = Contents(b"abcdef"), []

    def elsewhere(content: bytes) -> memoryview:
        put.append(content)
        return memoryview(content.upper())

    assert (contents.in_memory, len(contents), contents[1:3]) == (True, 6, b"bc")
    for _ in range(2):
        contents.keep_in(elsewhere)
        assert (contents.in_memory, len(contents), contents[1:3]) == (False, 6, b"BC")
    assert put == [b"abcdef"]
