"""What is added up: the same four figures for the plain worker and for effectd."""

from __future__ import annotations

import attrs


@attrs.frozen
class Tally:
    """Sums over the blocks."""

    duplicates: int = 0
    """Times that something was done beyond the first. Reading twice is none."""
    lost: int = 0
    """Things that were asked for and not done in the end."""
    survivors: int = 0
    """Processes that still ran 1 s after a kill or after the word `timed out`."""
    unknown: int = 0
    """Effects that were called unknown, instead of repeated or forgotten."""
    unsettled: int = 0
    """Those of them that are still unknown in the end."""

    def __add__(self, other: Tally) -> Tally:
        mine, others = attrs.astuple(self), attrs.astuple(other)
        return Tally(*(a + b for a, b in zip(mine, others, strict=True)))

    @property
    def clean(self) -> bool:
        return self.duplicates == self.lost == self.survivors == self.unsettled == 0

    def text(self) -> str:
        parts = f"{self.duplicates} duplicates, {self.lost} lost, {self.survivors} survivors"
        settled = "all settled" if not self.unsettled else f"{self.unsettled} NOT SETTLED"
        return f"{parts}, {self.unknown} unknown" + (f" ({settled})" if self.unknown else "")


def once(count: int) -> Tally:
    """The tally of one thing that should have been done once, and was done `count` times."""
    return Tally(duplicates=max(0, count - 1), lost=int(count == 0))


@attrs.frozen
class Measured:
    """One block's outcome."""

    name: str
    lines: tuple[str, ...]
    plain: Tally
    effectd: Tally
    figures: dict[str, object]
    """The same as values, for `--json`."""
    took_ms: int = 0


@attrs.frozen
class Report:
    """The whole run."""

    blocks: tuple[Measured, ...]
    unsettled: int
    took_ms: int

    @property
    def plain(self) -> Tally:
        return sum((block.plain for block in self.blocks), Tally())

    @property
    def effectd(self) -> Tally:
        return sum((block.effectd for block in self.blocks), Tally(unsettled=self.unsettled))

    def document(self) -> dict[str, object]:
        """As `--json` writes it."""
        return {
            "ok": self.effectd.clean,
            "took_ms": self.took_ms,
            "totals": {"plain": attrs.asdict(self.plain), "effectd": attrs.asdict(self.effectd)},
            "blocks": {
                block.name: {**block.figures, "took_ms": block.took_ms} for block in self.blocks
            },
        }
