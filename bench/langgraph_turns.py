"""A turn of LangGraph with its SQLite checkpointer; run by its own interpreter.

``langgraph_turns.py URL HISTORY TURNS FOLDER`` prints milliseconds a turn and megabytes.
"""

# pyright: reportMissingImports=false - the peer's interpreter has them
from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

TEXT = "x" * 200


def main(url: str, history: str, turns: str, folder: str) -> None:
    model = ChatOpenAI(model="bench-1", base_url=f"{url}/short/v1", api_key="x", max_retries=0)  # type: ignore[arg-type]

    def ask(state: Any) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    built = StateGraph(MessagesState)
    built.add_node("ask", ask)
    built.add_edge(START, "ask")
    built.add_edge("ask", END)
    connection = sqlite3.connect(Path(folder, "langgraph.db"), check_same_thread=False)
    graph = built.compile(checkpointer=SqliteSaver(connection))
    config: Any = {"configurable": {"thread_id": "one"}}
    kinds = (HumanMessage, AIMessage)
    graph.update_state(config, {"messages": [kinds[n % 2](TEXT) for n in range(int(history))]})
    seconds: list[float] = []
    for _ in range(3 + int(turns)):
        begin = perf_counter()
        found = graph.invoke({"messages": [HumanMessage(TEXT)]}, config)
        seconds.append(perf_counter() - begin)
        assert found["messages"][-1].content
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6
    print(median(seconds[3:]) * 1e3, resident)


if __name__ == "__main__":
    main(*sys.argv[1:])
