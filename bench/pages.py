"""One file, several pages: each begins with its title and is written anew on its own."""

from __future__ import annotations

from pathlib import Path


def put(file: Path, page: str) -> None:
    """Write ``page``, which begins with a line ``# TITLE``, in place of the one so titled."""
    pages = _split(file.read_text(encoding="utf-8")) if file.exists() else {}
    pages |= _split(page)
    file.write_text("\n".join(pages.values()), encoding="utf-8")


def _split(text: str) -> dict[str, str]:
    """Each page by its title, with one newline at its end."""
    pages: dict[str, str] = {}
    title = ""
    for line in text.splitlines():
        title = line if line.startswith("# ") else title
        pages[title] = pages.get(title, "") + line + "\n"
    return {title: page.rstrip("\n") + "\n" for title, page in pages.items()}
