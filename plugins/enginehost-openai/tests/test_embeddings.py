"""Vectors of texts: asked for once for many, given in order; what is no answer is an error."""

from __future__ import annotations

from typing import Any

import pytest

from enginehost.errors import ExecutionFailed, Unauthorized


async def test_each_text_has_its_vector_and_tools_are_found_by_them(hosting: Any, provider: Any) -> None:
    async def answer(exchange: Any) -> None:
        body = exchange.request.json
        assert exchange.request.path == "/v1/embeddings"
        assert body["model"] == "large-1"
        data = [{"index": at, "embedding": [len(text), 1]} for at, text in enumerate(body["input"])]
        await exchange.status(200, {"data": data[::-1]})

    provider.answer = answer
    async with hosting() as host:
        assert await host.llm("large-1").embed(["a", "bcd"]) == [[1.0, 1.0], [3.0, 1.0]]
        assert await host.tools_for_model("anything", classifier="embedding:large-1") == []


@pytest.mark.parametrize("body", [{}, {"data": [{"index": 0}]}, {"data": []}, []])
async def test_an_answer_without_vectors_is_an_error(hosting: Any, provider: Any, body: Any) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.status(200, body)

    provider.answer = answer
    async with hosting() as host:
        with pytest.raises(ExecutionFailed, match="no list of embeddings"):
            await host.llm().embed(["a"])


async def test_a_refusal_is_told_in_the_words_of_the_tree(hosting: Any, provider: Any) -> None:
    async def answer(exchange: Any) -> None:
        await exchange.status(401, {"error": {"message": "no such key"}})

    provider.answer = answer
    async with hosting() as host:
        with pytest.raises((ExecutionFailed, Unauthorized)):
            await host.llm().embed(["a"])
