"""The catalog as tools of other frameworks.

Each module needs its framework, which is an extra of the distribution, and has ``tools(source, tags=…,
query=…, most=…)`` and ``await atools(…)``:

======================================  ==============  ==========================================
module                                  extra           gives
======================================  ==============  ==========================================
``enginehost.integrations.langchain``   langchain       LangChain tools, also for LangGraph
``enginehost.integrations.openai_agents``  openai-agents  tools of the OpenAI Agents SDK
``enginehost.integrations.pydantic_ai``  pydantic-ai    tools of Pydantic AI
``enginehost.integrations.llm``         llm             tools of ``llm``, and its plugin
======================================  ==============  ==========================================

``source`` is a :class:`~enginehost.Host` or :class:`~enginehost.HostSync` in the process, or a
:class:`~enginehost.client.Client` or :class:`~enginehost.client.AsyncClient` of one elsewhere.
"""

from __future__ import annotations
