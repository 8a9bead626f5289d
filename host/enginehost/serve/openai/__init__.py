"""The OpenAI-compatible face: agents and model engines as models of Chat Completions."""

from enginehost.serve.openai.routes import openai_routes

__all__ = ["openai_routes"]
