"""Which of many functions fit what somebody asks for."""

from __future__ import annotations

from enginehost.narrowing.classifier import BM25 as BM25
from enginehost.narrowing.classifier import Embed as Embed
from enginehost.narrowing.classifier import check_classifier as check_classifier
from enginehost.narrowing.narrowing import MOST_TOOLS as MOST_TOOLS
from enginehost.narrowing.narrowing import Narrowing as Narrowing
from enginehost.narrowing.narrowing import chosen as chosen

__all__ = ["BM25", "MOST_TOOLS", "Embed", "Narrowing", "check_classifier", "chosen"]
