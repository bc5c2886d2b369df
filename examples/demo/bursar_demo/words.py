"""Words and colours that the view of a run and its summary share."""

from __future__ import annotations

from collections import Counter
from typing import Final

from rich.text import Text

from bursar import OutcomeKind
from bursar_demo.watch import Kind, News

COLOURS: Final = {
    OutcomeKind.OK: "green",
    OutcomeKind.FAILED: "red",
    OutcomeKind.CANCELLED: "yellow",
    OutcomeKind.DROPPED: "yellow",
    OutcomeKind.PANICKED: "bold red",
}
CUT_COLOUR: Final = "magenta"


def line(news: News) -> Text:
    return Text.assemble((f"{news.seconds:7.3f} s  ", "dim"), (f"{news.who:<10}", "bold"), (news.what, news.colour))


def endings(kind: Kind) -> Text:
    """How the tasks of a kind ended, in words. A task that was cut off is not counted as cancelled too."""
    whole = kind.ended - Counter({OutcomeKind.CANCELLED: kind.cut})
    parts = [Text(f"{n:,} {outcome.name.lower()}", COLOURS[outcome]) for outcome, n in sorted(whole.items())]
    if kind.cut:
        parts.append(Text(f"{kind.cut:,} cut off", CUT_COLOUR))
    return Text(", ").join(parts)


def worst_colour(kind: Kind) -> str:
    """The colour of the worst way in which a task of this kind ended."""
    return CUT_COLOUR if kind.cut else COLOURS[max(kind.ended, default=OutcomeKind.OK)]
