"""The prompts that the suite asks for."""

from __future__ import annotations

from resources import PNG

from enginehost.engine import current_call, form
from enginehost.values import McpContent


def simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


def prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments.

    Args:
        arg1: First test argument.
        arg2: Second test argument.
    """
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


def prompt_with_embedded_resource(resourceUri: str) -> McpContent:  # noqa: N803 - the suite's name
    """A prompt with a resource in it.

    Args:
        resourceUri: URI of the resource to embed.
    """
    text = "Embedded resource content for testing."
    about = {"uri": resourceUri, "mimeType": "text/plain", "text": text}
    return McpContent(
        [{"type": "resource", "resource": about}, "Please process the embedded resource above."]
    )


def prompt_with_image() -> McpContent:
    """A prompt with a picture in it."""
    return McpContent([PNG, "Please analyze the image above."])


def input_required_result_prompt() -> str:
    """A prompt that asks for something first."""
    schema = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}
    asked = current_call().ask(user_context=form("What context should the prompt use?", schema))
    return f"Use this context: {asked['user_context'].get('content', {}).get('context', 'none')}"
