"""Makes the lexicon that finds functions by words they do not have, from the files of WordNet 3.0.

Usage::

    python bench/make_lexicon.py FOLDER      # with data.noun, index.noun, … (Debian: package wordnet-base)

For each word: what means the same, and what is more general, in tiers (see ``enginehost.narrowing.lexicon``).
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from enginehost.narrowing.words import STOP, stem

TARGET = Path(__file__).parents[1] / "host/enginehost/narrowing/lexicon.txt.gz"
SENSES = {"noun": 2, "verb": 2, "adj": 1, "adv": 1}
"""Senses of a word that count, the most usual ones."""
POS = {"n": "noun", "v": "verb", "a": "adj", "s": "adj", "r": "adv"}
EQUAL = {"+", "=", "\\", "<"}
"""Derived from, attribute (hot: temperature), pertains to, participle of."""
WIDER = {"@", "@i", "&", ";c", "*", ">"}
"""More general, an instance of, similar, used in the field of, entails, causes."""
EMPTY = frozenset(
    """
    entity physical_entity abstraction abstract_entity thing object physical_object whole unit matter
    attribute
    psychological_feature group grouping relation measure act human_action human_activity causal_agent cause
    causal_agency instrumentality instrumentation artifact artefact state event happening occurrence process
    physical_process change move act_upon make be have get go do take give come put be_active living_thing
    animate_thing organism being cognition knowledge content message communication substance part portion
    property activity action quality way means abstract idea concept
    """.split()  # noqa: SIM905 - a list of words is read more easily so
)
"""What nearly everything is: it tells nothing apart."""


class WordNet:
    """The files, as tables."""

    def __init__(self, folder: Path) -> None:
        self.synsets: dict[tuple[str, str], tuple[list[str], list[tuple[str, tuple[str, str], str]]]] = {}
        self.senses: dict[str, list[tuple[str, str]]] = {}
        for pos, most in SENSES.items():
            for line in _lines(folder / f"data.{pos}"):
                self._synset(pos, line)
            for line in _lines(folder / f"index.{pos}"):
                word, _, count, pointers, *rest = line.split()
                at = rest[int(pointers) + 2 :][: min(most, int(count))]
                self.senses.setdefault(word, []).extend((pos, one) for one in at)

    def _synset(self, pos: str, line: str) -> None:
        fields = line.partition(" | ")[0].split()
        count = int(fields[3], 16)
        words = [word.partition("(")[0] for word in fields[4 : 4 + 2 * count : 2]]
        at = 4 + 2 * count
        pointers: list[tuple[str, tuple[str, str], str]] = []
        for number in range(int(fields[at])):
            sign, offset, kind, ends = fields[at + 1 + 4 * number : at + 5 + 4 * number]
            pointers.append((sign, (POS[kind], offset), ends))
        self.synsets[pos, fields[0]] = words, pointers

    def tiers(self, word: str) -> list[set[str]]:
        """Stems: equal to the word, then wider by one, two and three steps; each where it is nearest."""
        known = {stem(word)}
        tiers: list[set[str]] = [set(), set(), set(), set()]
        places: dict[str, int] = {}
        for key in self.senses[word]:
            pos = key[0]
            place = places[pos] = places.get(pos, -1) + 1
            words, pointers = self.synsets[key]
            tiers[place] |= stems(words)
            for sign, target, ends in pointers:
                if sign in EQUAL:
                    tiers[place] |= stems(self._ends(target, ends))
            wider = [key]
            for depth in range(1, 4 - place if pos == "noun" else 2):
                wider = [to for one in wider for sign, to, _ in self.synsets[one][1] if sign in WIDER][:6]
                for to in wider:
                    tiers[min(3, depth + place)] |= stems(self.synsets[to][0])
        return _each_once(tiers, known)

    def _ends(self, target: tuple[str, str], ends: str) -> list[str]:
        words, at = self.synsets[target][0], int(ends[2:], 16)
        return words[at - 1 : at] if at else words


def _each_once(tiers: list[set[str]], known: set[str]) -> list[set[str]]:
    """Each stem in the first tier that has it, and none that is ``known``."""
    found: list[set[str]] = []
    for tier in tiers:
        found.append(tier - known)
        known = known | tier
    return found


def stems(words: Iterable[str]) -> set[str]:
    """The stems of words that tell something; of a phrase its last word, which says what it is."""
    found: set[str] = set()
    for word in words:
        last = word.replace("-", "_").split("_")[-1].lower()
        if (
            word.lower() not in EMPTY
            and last not in EMPTY
            and last not in STOP
            and last.isalpha()
            and len(last) > 2
        ):
            found.add(stem(last))
    return found


def _lines(path: Path) -> Iterator[str]:
    for line in path.read_text(encoding="latin-1").splitlines():
        if not line.startswith("  "):
            yield line


def main(folder: str) -> None:
    """Write the lexicon."""
    net = WordNet(Path(folder))
    table: dict[str, list[set[str]]] = {}
    shortest: dict[str, int] = {}
    every = [
        word
        for word in net.senses
        if word.isalpha() and word.isascii() and 2 < len(word) < 20 and word not in STOP
    ]
    for word in every:
        shortest[stem(word)] = min(len(word), shortest.get(stem(word), 99))
    for word in every:
        if len(word) <= shortest[stem(word)] + 1:  # cow, and not coward
            tiers = table.setdefault(stem(word), [set(), set(), set(), set()])
            for tier, more in zip(tiers, net.tiers(word), strict=True):
                tier.update(more)
    lines: list[str] = []
    for word, tiers in sorted(table.items()):
        told = "|".join(" ".join(sorted(tier)) for tier in _each_once(tiers, {word})).rstrip("|")
        if told:
            lines.append(f"{word} {told}")
    data = "\n".join(lines).encode()
    TARGET.write_bytes(gzip.compress(data, 9, mtime=0))
    print(f"{len(lines)} words, {len(data)} bytes, {TARGET.stat().st_size} compressed")


if __name__ == "__main__":
    main(sys.argv[1])
