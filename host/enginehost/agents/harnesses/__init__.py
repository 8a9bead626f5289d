"""Harnesses as examples: what an agent's model sees beside what was said.

Each is small enough to be read, and to be copied and changed::

    class Support(Agent):
        harness = EmbeddingSearch(documents)
"""

from enginehost.agents.harnesses.beside import Beside
from enginehost.agents.harnesses.embedding_search import EmbeddingSearch
from enginehost.agents.harnesses.knowledge_graph import KnowledgeGraph
from enginehost.agents.harnesses.live_tables import LiveTables
from enginehost.agents.harnesses.pattern_extraction import PatternExtraction
from enginehost.agents.harnesses.prompt_rewriting import PromptRewriting

__all__ = [
    "Beside",
    "EmbeddingSearch",
    "KnowledgeGraph",
    "LiveTables",
    "PatternExtraction",
    "PromptRewriting",
]
