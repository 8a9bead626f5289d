"""``enginehost databus --watch``: a line for everything that happens."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from enginehost.cli.output import emphasised, one_line, print_encoded, say
from enginehost.databus.config import DatabusConfig
from enginehost.databus.sight import Sight
from enginehost.databus.signing_setup import Signing, signing_of
from enginehost.databus.survey import Survey, judged, observer, place_of
from enginehost.databus.survey_events import Happening, happenings, judgements
from enginehost.databus.survey_findings import finding_of_no_bus, findings_of
from enginehost.errors import EngineUnavailable
from enginehost.values import write

QUIET_SECONDS = 1.0
"""After so long without news the whole is judged: endpoints of one program are discovered one by one."""

_STYLES = {
    "arrived": "green",
    "back": "green",
    "left": "yellow",
    "gone": "yellow",
    "lost": "red",
    "finding": "red",
}


def watch_bus(config: DatabusConfig, *, as_json: bool) -> None:
    """Print until interrupted. Raises :class:`EngineUnavailable` where the bus cannot be joined."""
    try:
        for happening in _happenings(config):
            (_print_json if as_json else _print)(happening)
            sys.stdout.flush()
    except KeyboardInterrupt:
        return
    except EngineUnavailable as failure:
        found = finding_of_no_bus(config, failure)
        error = EngineUnavailable(found.message, reason=found.code)
        error.detail["hint"] = found.hint
        raise error from failure


def _happenings(config: DatabusConfig) -> Iterator[Happening]:
    signing = signing_of(config)
    before = Survey(place_of(config, ""), signing)
    yield Happening("watching", f"domain {config.domain} on {config.interface}", {"domain": config.domain})
    with observer(config) as looking:
        news_at, is_judged = time.monotonic(), False
        while True:
            if looking.look():
                news_at, is_judged = time.monotonic(), False
                after = judged(config, looking.seen(), signing, before.findings)
                yield from happenings(before, after)
                before = after
            elif not is_judged and time.monotonic() - news_at >= QUIET_SECONDS:
                is_judged = True
                after = _judged_anew(config, looking.seen(), signing)
                yield from judgements(before, after)
                before = after


def _judged_anew(config: DatabusConfig, sight: Sight, signing: Signing) -> Survey:
    return judged(config, sight, signing, findings_of(config, sight, signing))


def _print_json(happening: Happening) -> None:
    line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": happening.event}
    print_encoded(write(line | happening.about), pretty=False)


def _print(happening: Happening) -> None:
    word = happening.event
    style = _STYLES.get(word.rpartition("-")[2], "dim")
    moment = datetime.now().astimezone().strftime("%H:%M:%S")
    say(f"{moment}  {emphasised(f'{word:<20}', sys.stdout, style)} {one_line(happening.text)}")
