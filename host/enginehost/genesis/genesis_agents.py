"""Genesis's names for agents."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginehost.agents.asking import ask
from enginehost.agents.authored import born_with
from enginehost.agents.config import AgentConfig
from enginehost.call import Call, current_call
from enginehost.caller import LOCAL
from enginehost.engine import EngineContext, Function, RunMode, no_sessions
from enginehost.errors import ConfigError, EngineHostError, ExecutionFailed, error_from_json
from enginehost.genesis.agent import Agent
from enginehost.genesis.background import Background
from enginehost.genesis.genesis_services import in_domain
from enginehost.genesis.no_agents import NoAgents

if TYPE_CHECKING:
    from enginehost.databus import DatabusConfig
    from enginehost.settings import HostSettings

OK, FAILED = 0, 1
"""``status`` of a reply, as Genesis's interface path has it."""

_CONVERSATION: ContextVar[str] = ContextVar("enginehost_genesis_conversation", default="")
"""The conversation that :meth:`GenesisAgent.process_message` goes on with."""


class GenesisAgent(Agent):
    """An agent, as Genesis's programs write one; by default it may call all that there is on the databus.

    ``agent_name`` is its name, ``base_service_name`` its service. With ``enable_agent_communication`` off it
    is shown no other agents. ``domain_id`` is the databus domain of an agent that runs alone, by default what
    the settings say. A subclass may answer itself, by :meth:`process_message` or :meth:`process_request`;
    else its model does. ``agent_id``, ``memory_adapter`` (conversations are kept in the host's database),
    ``auto_run`` (an agent runs from ``run()``, or from the first message on), ``service_instance_tag`` and
    the classifier's parameters have no effect.
    """

    tools: str | Sequence[str] = "*"

    def __init__(
        self,
        agent_name: str | EngineContext = "",
        base_service_name: str | Any = "",
        agent_id: str | None = None,
        domain_id: int | None = None,
        enable_agent_communication: bool = False,
        memory_adapter: Any = None,
        auto_run: bool = True,
        service_instance_tag: str = "",
        *,
        agent_type: str = "",
        description: str | None = None,
        model_name: str = "",
        enable_monitoring: bool = True,
        enable_tracing: bool = False,
        classifier_llm: Any = None,
        classifier_provider: str = "",
        classifier_model: str = "",
    ) -> None:
        by_host = isinstance(agent_name, EngineContext)
        given, config = (agent_name, base_service_name) if by_host else (None, None)
        context, config = born_with(given if isinstance(given, EngineContext) else None, config)
        if isinstance(agent_name, str) and agent_name:
            self.name = re.sub(r"\W+", "_", agent_name).strip("_")
        if not by_host and base_service_name:
            self.service_name = str(base_service_name)
        self.agent_name = self.name or type(self).__name__
        self.domain_id = domain_id
        self.enable_agent_communication = enable_agent_communication
        said = {"agent_type": agent_type, "model": model_name}
        keys: dict[str, Any] = {key: value for key, value in said.items() if value}
        own_harness = getattr(type(self), "harness", None)
        in_program = context is None or context.path is None
        if in_program and not (enable_agent_communication or own_harness):
            keys["harness"] = NoAgents()
        super().__init__(context or EngineContext(self.agent_name), _over(keys, config))
        if description:
            self._describe(description)
        self._background = Background()

    @property
    def _answers_itself(self) -> bool:
        cls = type(self)
        base = GenesisAgent
        return (
            cls.process_message is not base.process_message or cls.process_request is not base.process_request
        )

    def _describe(self, description: str) -> None:
        if not self.spec.description or self.spec.description == self.described:
            self.described = description
            self.spec = replace(self.spec, description=description)

    def define_capabilities(
        self,
        agent_type: str = "",
        specializations: Sequence[str] | None = None,
        capabilities: Sequence[str] | None = None,
        classification_tags: Sequence[str] | None = None,
        performance_metrics: Mapping[str, Any] | None = None,
        interaction_patterns: Sequence[str] | None = None,
        strengths: Sequence[str] | None = None,
        limitations: Sequence[str] | None = None,
        default_capable: bool = True,
    ) -> None:
        """Say what those are told who choose among agents.

        ``performance_metrics`` has no effect (they are measured), nor have the three lists behind it.
        """
        said: dict[str, Any] = {
            "specializations": list(specializations or ()),
            "capabilities": list(capabilities or ()),
            "default_capable": default_capable,
        }
        if agent_type:
            said["agent_type"] = agent_type
        self.said = self.said.model_copy(update=said)
        self.facts = self.said.facts
        self.tags = tuple(dict.fromkeys((*self.tags, *(classification_tags or ()))))

    async def open(self) -> None:
        """Begin; one that answers itself leaves the host's database to its first question to a model."""
        await (self.begin_agent() if self._answers_itself else super().open())

    @property
    def trouble(self) -> str:
        """What the agent names that there is not."""
        return "" if self._answers_itself else super().trouble

    def as_agent(self) -> dict[str, Any] | None:
        """Nothing for one that answers itself: its turns are its own, and run in its own process."""
        return None if self._answers_itself else super().as_agent()

    def functions(self) -> tuple[Function, ...]:
        """The agent as a function."""
        (made,) = super().functions()
        if not self._answers_itself:
            return (made,)
        return (
            replace(
                made,
                run=self._processed,
                mode=RunMode.ASYNC,
                signature=replace(made.signature, streaming=False),
            ),
        )

    async def process_request(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to ``{"message": …, "conversation_id": …}``: ``message``, ``status`` and the id.

        ``status`` is 0, or 1 after a failure, which ``error`` then has.
        """
        conversation = str(request.get("conversation_id") or uuid.uuid4())
        reply: dict[str, Any] = {"status": OK, "conversation_id": conversation}
        token = _CONVERSATION.set(conversation)
        try:
            reply["message"] = await self.process_message(str(request["message"]))
        except EngineHostError as error:
            reply |= {"message": f"Error: {error.message}", "status": FAILED, "error": error.to_json()}
        finally:
            _CONVERSATION.reset(token)
        return reply

    async def process_message(self, message: str) -> str:
        """The answer of the agent's model, in the conversation of the request that is processed.

        Outside a host the agent goes on the databus first, and stays there until :meth:`close`.
        """
        if self.context.agents is no_sessions and self.context.path is None:
            await self._background.start(self, settings=in_domain(None, self.domain_id))
        call = current_call()
        agents = await self.context.agents()
        caller = call.caller if call is not None else LOCAL
        return await ask(agents, self.spec.name, message, _CONVERSATION.get(), caller)

    async def close(self) -> None:
        """Leave the databus, where :meth:`process_message` went on it; else what a host does at the end."""
        if not await self._background.stop():
            await super().close()

    async def run(
        self,
        *,
        folder: str | Path | None = None,
        databus: DatabusConfig | None = None,
        settings: HostSettings | None = None,
    ) -> None:
        """See :meth:`enginehost.Agent.run`."""
        await super().run(folder=folder, databus=databus, settings=in_domain(settings, self.domain_id))

    async def _processed(self, arguments: dict[str, Any], call: Call) -> str:
        """An answer of :meth:`process_request`; its failures become errors again."""
        request = {"message": str(arguments["message"])}
        if conversation := arguments.get("conversation_id"):
            request["conversation_id"] = str(conversation)
        reply: Any = await self.process_request(request)
        if not isinstance(reply, Mapping):
            return str(reply)
        if error := reply.get("error"):
            raise error_from_json(error)
        text = str(reply.get("message", ""))
        if reply.get("status", OK) != OK:
            raise ExecutionFailed(text or "the agent failed")
        return text


class MonitoredAgent(GenesisAgent):
    """The same: every host tells monitors of its agents."""


class OpenAIGenesisAgent(MonitoredAgent):
    """An agent whose model is one of OpenAI's, or of a server that speaks OpenAI's API.

    ``OPENAI_API_KEY`` has the key, ``OPENAI_BASE_URL`` the address. In a host whose folder has a model of
    ``model_name``, that one answers. ``classifier_model_name`` has no effect.
    """

    def __init__(
        self,
        model_name: str | EngineContext = "gpt-4o",
        classifier_model_name: str | Any = "gpt-4o-mini",
        domain_id: int | None = None,
        agent_name: str = "",
        base_service_name: str = "",
        description: str | None = None,
        enable_tracing: bool = False,
        enable_monitoring: bool = True,
        enable_agent_communication: bool = True,
        memory_adapter: Any = None,
        auto_run: bool = True,
        service_instance_tag: str = "",
    ) -> None:
        self.model_name = model_name if isinstance(model_name, str) else "gpt-4o"
        super().__init__(
            agent_name if isinstance(model_name, str) else model_name,
            base_service_name if isinstance(model_name, str) else classifier_model_name,
            domain_id=domain_id,
            enable_agent_communication=enable_agent_communication,
            memory_adapter=memory_adapter,
            auto_run=auto_run,
            service_instance_tag=service_instance_tag,
            description=description,
            model_name=self.model_name,
            enable_monitoring=enable_monitoring,
            enable_tracing=enable_tracing,
        )

    async def bring_model(self, host: Any) -> None:
        """Add the model, where the host has none of its name. Raises ``ConfigError`` without a key."""
        key, url = os.environ.get("OPENAI_API_KEY", ""), os.environ.get("OPENAI_BASE_URL", "")
        if not (key or url):
            hint = "set OPENAI_API_KEY, or OPENAI_BASE_URL for a server that needs no key"
            raise ConfigError(f"{self.agent_name} has no key for {self.model_name}", hint=hint)
        keys = {"ENGINE_CLASS": "OpenAI", "MODEL": self.model_name, "LIST_MODELS": "false"}
        keys |= {"API_KEY": key} if key else {}
        keys |= {"BASE_URL": url} if url else {}
        self.model_engine = keys
        await super().bring_model(host)


def _over(keys: Mapping[str, Any], config: AgentConfig | None) -> AgentConfig:
    """The keys that the program says, and before them those of a file."""
    said = {name: getattr(config, name) for name in config.model_fields_set} if config is not None else {}
    return AgentConfig.model_validate({**keys, **said})
