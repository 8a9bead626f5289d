"""What a graph of knowledge says of the things that the user names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from enginehost.agents.contract import Session
from enginehost.agents.harnesses.beside import Beside
from enginehost.llm.message import Message, user

Triple = tuple[str, str, str]
"""Subject, relation, object."""


class KnowledgeGraph(Beside):
    """Shows the triples around the things that are named: ``depth`` relations far, ``most`` in all."""

    def __init__(self, triples: Iterable[Triple], *, depth: int = 1, most: int = 50) -> None:
        super().__init__()
        self._depth, self._most = depth, most
        self._around: dict[str, list[Triple]] = defaultdict(list)
        for triple in dict.fromkeys(triples):
            for thing in {triple[0], triple[2]}:
                self._around[thing].append(triple)
        names = sorted(self._around, key=len, reverse=True)  # the longest first: New York before York
        self._named = re.compile(
            r"(?<!\w)(?:" + "|".join(map(re.escape, names)) + r")(?!\w)" if names else r"(?!)", re.IGNORECASE
        )
        self._spelled = {name.casefold(): name for name in reversed(names)}

    async def found(self, session: Session, said: Message) -> Sequence[Message]:
        """One message with the triples, the nearest first; none where nothing is named that is known."""
        triples = self.around(self.things(said.content))
        if not triples:
            return ()
        listed = "\n".join(f"{one} — {relation} → {other}" for one, relation, other in triples)
        return (user(f"What is known of the things in the next message:\n{listed}"),)

    def things(self, text: str) -> list[str]:
        """The things that a text names, in its order."""
        found = (self._spelled[match.casefold()] for match in self._named.findall(text))
        return list(dict.fromkeys(found))

    def around(self, things: Sequence[str]) -> list[Triple]:
        """The triples around some things."""
        triples: dict[Triple, None] = {}
        seen, edge = set(things), list(things)
        for _ in range(self._depth):
            further: list[str] = []
            for triple in (triple for thing in edge for triple in self._around[thing]):
                triples[triple] = None
                further += [end for end in (triple[0], triple[2]) if end not in seen]
                seen.update(further)
                if len(triples) >= self._most:
                    return list(triples)
            edge = list(dict.fromkeys(further))
        return list(triples)
