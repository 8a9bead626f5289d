"""Makes the functions of a set from its hand-written text: ``python tests/host/narrowing/making.py``.

A text has domains, each with a style of names, and lines of two kinds::

    # domain: style, tag, tag
    noun | what it is | parameter, parameter | verb verb      one function for each verb
    ! words of a name | what it does | parameter, parameter   one function

A function's key is its domain, its verb and its noun, whatever its name has become.

Which of a verb's sentences describes a function is drawn, the same each time.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

VERBS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "get": (
        ("get", "fetch", "read", "retrieve"),
        (
            "Returns one {noun} by its id, with all details ({gloss}).",
            "Retrieve a single {noun}: {gloss}.",
            "Reads the details of {a_noun}, i.e. {gloss}.",
        ),
    ),
    "list": (
        ("list", "find_all", "get_all", "query"),
        (
            "Lists {nouns}, newest first; results are paged.",
            "Returns every {noun} that matches the filters ({gloss}).",
            "Lists all {nouns} that the caller may see.",
        ),
    ),
    "create": (
        ("create", "add", "new", "register"),
        (
            "Creates a new {noun} ({gloss}).",
            "Adds {a_noun}: {gloss}. Returns its id.",
            "Registers {a_noun} and returns the stored record.",
        ),
    ),
    "update": (
        ("update", "edit", "modify", "patch"),
        (
            "Updates fields of an existing {noun}.",
            "Changes {a_noun} ({gloss}); fields that are left out stay as they are.",
            "Modify the attributes of {a_noun}.",
        ),
    ),
    "delete": (
        ("delete", "remove", "drop"),
        (
            "Permanently deletes {a_noun}.",
            "Removes {a_noun} ({gloss}). Cannot be undone.",
            "Deletes the {noun} with the given id.",
        ),
    ),
    "search": (
        ("search", "find", "lookup"),
        (
            "Full-text search over {nouns} ({gloss}).",
            "Finds {nouns} by keyword and filters.",
            "Search {nouns}; the best matches come first.",
        ),
    ),
    "cancel": (
        ("cancel", "void", "abort"),
        ("Cancels {a_noun} before it takes effect.", "Cancels an open {noun} ({gloss})."),
    ),
    "approve": (
        ("approve", "confirm"),
        ("Approves a pending {noun}.", "Marks {a_noun} as approved ({gloss})."),
    ),
    "export": (
        ("export", "download"),
        ("Exports {nouns} as CSV or JSON.", "Produces a file with all {nouns} ({gloss})."),
    ),
    "history": (
        ("history", "audit", "log"),
        (
            "Returns the history of changes of {a_noun}.",
            "Lists earlier versions and events of {a_noun} ({gloss}).",
        ),
    ),
    "send": (
        ("send", "deliver", "dispatch"),
        ("Sends {a_noun} to its recipients.", "Delivers {a_noun} ({gloss})."),
    ),
    "assign": (
        ("assign", "allocate"),
        ("Assigns {a_noun} to a person.", "Gives {a_noun} to a new owner ({gloss})."),
    ),
    "start": (
        ("start", "launch", "begin"),
        ("Starts {a_noun}.", "Launches {a_noun} ({gloss}); returns at once."),
    ),
    "stop": (
        ("stop", "halt", "end"),
        ("Stops a running {noun}.", "Ends {a_noun} ({gloss})."),
    ),
    "status": (
        ("status", "check", "state"),
        ("Tells the current state of {a_noun}.", "Returns the status of {a_noun} ({gloss})."),
    ),
    "book": (
        ("book", "reserve"),
        ("Books {a_noun} for given dates.", "Reserves {a_noun} ({gloss}) and returns a confirmation code."),
    ),
    "count": (
        ("count", "stats", "summary"),
        ("Counts {nouns} by group.", "Aggregated numbers about {nouns} ({gloss})."),
    ),
}

STYLES: dict[str, Callable[[str, list[str], list[str]], str]] = {
    "snake": lambda _, verb, noun: "_".join([*verb, *noun]),
    "camel": lambda _, verb, noun: "".join([verb[0], *map(str.title, [*verb[1:], *noun])]),
    "dotted": lambda domain, verb, noun: f"{domain}.{'_'.join(noun)}.{'_'.join(verb)}",
    "pascal": lambda _, verb, noun: "".join(map(str.title, [*verb, *noun])),
    "behind": lambda _, verb, noun: "_".join([*noun, *verb]),
    "prefixed": lambda domain, verb, noun: "_".join([domain, *verb, *noun]),
}
"""Names from a domain, a verb and a noun."""

KINDS = {
    "date": {"type": "string", "format": "date"},
    "amount": {"type": "number"},
    "count": {"type": "integer"},
    "limit": {"type": "integer", "description": "Most results"},
    "filter": {"type": "string", "description": "Expression that results have to fit"},
    "fields": {"type": "object", "description": "New values by field"},
    "reason": {"type": "string", "description": "Why, for the records"},
}
MORE = {
    "list": ("filter", "limit"),
    "search": ("query", "limit"),
    "update": ("fields",),
    "cancel": ("reason",),
    "delete": (),
    "assign": ("assignee",),
    "export": ("format",),
    "count": ("group_by",),
}


def functions(text: str) -> Iterator[dict[str, Any]]:
    """The functions of a text, in its order; raises where two have one name."""
    drawn, names = random.Random(7), set[str]()
    domain, style, tags = "", "snake", list[str]()
    for line in text.splitlines():
        if line.startswith("# "):
            domain, _, rest = line[2:].partition(":")
            style, *tags = (one.strip() for one in rest.split(","))
        elif line.strip():
            for one in _of_line(line, domain, style, tags, drawn):
                if one["name"] in names:
                    raise ValueError(f"two functions are named {one['name']}")
                names.add(one["name"])
                yield one


def _of_line(
    line: str, domain: str, style: str, tags: list[str], drawn: random.Random
) -> Iterator[dict[str, Any]]:
    first, about, given, *rest = (one.strip() for one in line.split("|"))
    parameters = [one.strip() for one in given.split(",") if one.strip()]
    if first.startswith("!"):
        words = first[1:].split()
        name = STYLES[style](domain, words[:1], words[1:])
        yield {"key": f"{domain} {' '.join(words)}"} | _function(name, about, parameters, [domain, *tags])
        return
    for verb in rest[0].split():
        called, sentences = VERBS[verb]
        shown = drawn.choice(called) if drawn.random() < 0.5 else called[0]
        noun = first.split()
        name = STYLES[style](
            domain, shown.split("_"), [*noun[:-1], _plural(noun[-1])] if verb == "list" else noun
        )
        text = drawn.choice(sentences).format(
            noun=first, nouns=_plural(first), a_noun=_with_article(first), gloss=about
        )
        own = parameters if verb in ("create", "book") else parameters[:1]
        key = {"key": f"{domain} {verb} {first}"}
        yield key | _function(name, text, [*own, *MORE.get(verb, ())], [domain, *tags])


def _function(name: str, description: str, parameters: list[str], tags: list[str]) -> dict[str, Any]:
    properties = {one: KINDS.get(re.split("_", one)[-1], {"type": "string"}) for one in parameters}
    schema = {"type": "object", "properties": properties, "required": parameters[:1]}
    return {"name": name, "description": description, "tags": tags, "parameters": schema}


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


if __name__ == "__main__":
    for name in sys.argv[1:] or ("development", "catalogue"):
        made = list(functions((HERE / f"{name}.txt").read_text(encoding="utf-8")))
        lines = ",\n".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in made)
        (HERE / f"{name}.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        sys.stdout.write(f"{name}: {len(made)} functions\n")
