"""The A2A face: the agents of a host as servers of the Agent2Agent protocol, version 1.0."""

from enginehost.serve.a2a.http import PREFIX, WELL_KNOWN, A2aHttp

__all__ = ["PREFIX", "WELL_KNOWN", "A2aHttp"]
