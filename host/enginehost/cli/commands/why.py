"""``enginehost why``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from enginehost.cli.options import DEFAULT_FOLDER, Config, Folder, Json
from enginehost.cli.output import emphasised, print_json, say

if TYPE_CHECKING:
    from enginehost.monitoring.decisions import Linked
    from enginehost.monitoring.why import Cause

app = typer.Typer()

_VERDICTS = {
    "failed": "failed at",
    "unfinished": "waits for, or waited in vain for the end of",
    "waits": "waits for a person at",
    "slowest": "worked; most of the time went to",
}


@app.command()
def why(
    chain: Annotated[str, typer.Argument(help="The chain's id, or its beginning.")],
    folder: Folder = DEFAULT_FOLDER,
    config: Config = None,
    json: Json = False,
) -> None:
    """Say why a recorded chain failed, or what took its time.

    And what was different when a chain that began so last worked.
    """
    from enginehost.cli.chains.recorded import chosen, recorded
    from enginehost.monitoring.database import WAITS, last_good, steps_of
    from enginehost.monitoring.decisions import linked_in
    from enginehost.monitoring.why import cause_of

    with recorded(folder, config) as link:
        head, steps = chosen(link, chain)
        good = last_good(link, head)
        before = steps_of(link, good) if good else None
    cause = cause_of(steps, good, before, waits=head.status == WAITS)
    others = linked_in(steps.values())
    if json:
        found = cause.to_json() if cause is not None else None
        links = [one.to_json() for one in others]
        print_json({"chain": head.to_json(), "cause": found, "linked": links})
    elif cause is None:
        say("nothing was recorded of this chain but that it was")
    else:
        _print(cause, others)
    sys.stdout.flush()


def _print(cause: Cause, others: list[Linked]) -> None:
    from enginehost.cli.chains.drawing import cut, link_words, step_words

    say(f"{_VERDICTS[cause.verdict]}  {emphasised(step_words(cause.step), sys.stdout, 'bold')}")
    say(f"  way      {' → '.join(map(cut, cause.way))}")
    if cause.because:
        say(f"  because  {cause.because}")
    for one in others:
        say(f"  linked   {link_words(one)}")
    if cause.failed_too:
        say(f"  and so   {', '.join(map(cut, cause.failed_too))} failed too")
    for number, one in enumerate(cause.waited):
        head = "spent on" if not number else ""
        say(f"  {head:<8} {cut(one.what)}: {one.seconds * 1000:.1f} ms ({one.share:.0%})")
    if not cause.last_good:
        say("  before   no earlier chain that began so and worked is recorded")
        return
    for number, line in enumerate(cause.changed or ("nothing that was recorded has changed",)):
        head = "changed" if not number else ""
        say(f"  {head:<8} {cut(line, 200)}")
    say(f"  since    chain {cause.last_good[:16]}, which worked")
