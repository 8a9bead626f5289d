"""The names that Genesis makes of the name of a service, in its first and in its second era."""

from __future__ import annotations

from dataclasses import dataclass

ERA_2 = "rti/connext/genesis/rpc/"
"""What stands before the topics of calls in the second era."""


@dataclass(frozen=True, slots=True)
class ServiceTopics:
    """The two topics of one service. Connext's Requester and Replier make them of ``base``."""

    base: str

    @property
    def request(self) -> str:
        """The topic of the requests."""
        return f"{self.base}Request"

    @property
    def reply(self) -> str:
        """The topic of the replies."""
        return f"{self.base}Reply"


def function_service(service: str, era: int = 1) -> ServiceTopics:
    """A service whose functions are called; of the second era also an agent that an interface calls."""
    return ServiceTopics(f"{ERA_2}{service}" if era == 2 else service)


def interface_service(service: str, tag: str = "") -> ServiceTopics:
    """An agent that interfaces of the first era call; ``tag`` tells instances of one service apart."""
    return ServiceTopics(f"{service}_{tag}" if tag else service)


def agent_service(service: str, agent_id: str = "", era: int = 1) -> ServiceTopics:
    """An agent that other agents call. In the first era it is one of its own for each agent id."""
    return ServiceTopics(f"{ERA_2}{service}_AgentRPC" if era == 2 else f"{service}_{agent_id}")
