"""The tools that the suite calls, by the names and with the answers that it wants."""

from __future__ import annotations

import base64
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

from resources import PNG

from enginehost.engine import current_call, form, roots, sample
from enginehost.values import McpContent

WAV = base64.b64decode("UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=")
FOLDER = Path(__file__).parents[1]
_CHANGES = itertools.count(1)


def _text_form(name: str, message: str):
    return form(message, {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]})


def _told(answer: dict) -> str:
    return f"action={answer['action']}, content={answer.get('content')}"


def simple_text() -> str:
    """Answer with a text."""
    return "This is a simple text response for testing."


def image_content() -> bytes:
    """Answer with a picture."""
    return PNG


def audio_content() -> bytes:
    """Answer with a sound."""
    return WAV


def embedded_resource() -> McpContent:
    """Answer with a resource."""
    text = "This is an embedded resource content."
    about = {"uri": "test://embedded-resource", "mimeType": "text/plain", "text": text}
    return McpContent([{"type": "resource", "resource": about}])


def multiple_content_types() -> McpContent:
    """Answer with content of several kinds."""
    text = '{"test":"data","value":123}'
    about = {"uri": "test://mixed-content-resource", "mimeType": "application/json", "text": text}
    return McpContent(["Multiple content types test:", PNG, {"type": "resource", "resource": about}])


def tool_with_logging() -> str:
    """Say something while it runs."""
    call = current_call()
    call.log("info", "Tool execution started")
    time.sleep(0.05)
    call.log("info", "Tool processing data")
    time.sleep(0.05)
    call.log("info", "Tool execution completed")
    return "Tool with logging executed successfully"


def logging_tool() -> str:
    """Say something, which only those hear who asked for it."""
    current_call().log("info", "This is for those who set a level")
    return "Logged"


def error_handling() -> str:
    """Fail."""
    raise ValueError("This tool intentionally returns an error for testing")


def tool_with_progress() -> str:
    """Tell how far it is."""
    call = current_call()
    for done in (0, 50, 100):
        call.progress(done, 100, f"Completed step {done} of 100")
        time.sleep(0.05)
    return "Progress reported"


def sampling(prompt: str) -> str:
    """Ask the client's model.

    Args:
        prompt: The prompt to send to the model.
    """
    answer = current_call().ask(answer=sample(prompt, 100))["answer"]
    return f"LLM response: {answer['content']['text']}"


def elicitation(message: str) -> str:
    """Ask the client's user.

    Args:
        message: The message to show the user.
    """
    schema = {
        "type": "object",
        "properties": {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        },
        "required": ["username", "email"],
    }
    return f"User response: {_told(current_call().ask(user=form(message, schema))['user'])}"


def elicitation_sep1034_defaults() -> str:
    """Ask with a form that has defaults."""
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    question = form("Please check the values", {"type": "object", "properties": properties})
    return f"Elicitation completed: {_told(current_call().ask(values=question)['values'])}"


def elicitation_sep1330_enums() -> str:
    """Ask with a form that has choices of each kind."""
    options = ["option1", "option2", "option3"]
    titled = [
        {"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second"), 1)
    ]
    properties = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    question = form("Please choose", {"type": "object", "properties": properties})
    return f"Elicitation completed: {_told(current_call().ask(values=question)['values'])}"


def missing_capability() -> str:
    """Need a model of the client's."""
    return str(current_call().ask(answer=sample("Say something", 10))["answer"])


def streaming_elicitation() -> Iterator[str]:
    """Say something, and ask while it streams."""
    yield "before"
    yield _told(current_call().ask(name=_text_form("name", "What is your name?"))["name"])


def trigger_tool_change() -> str:
    """Change the list of tools."""
    return _changed("changing_tool", "")


def trigger_prompt_change() -> str:
    """Change the list of prompts."""
    return _changed("changing_prompt", "FUNCTION_MCP = prompt\n")


def _changed(name: str, more: str) -> str:
    (FOLDER / f"{name}.smss").write_text(
        "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = scripts/resources.py\n"
        f"PYTHON_FUNCTION_NAME = static_text\nFUNCTION_NAME = {name}\n{more}"
        f"FUNCTION_DESCRIPTION = Change {next(_CHANGES)}.\n"
    )
    return "changed"


def input_required_result_elicitation() -> str:
    """Ask for a name."""
    answer = current_call().ask(user_name=_text_form("name", "What is your name?"))["user_name"]
    return f"Hello, {answer.get('content', {}).get('name', 'stranger')}!"


def input_required_result_sampling() -> str:
    """Ask the client's model."""
    answer = current_call().ask(capital_question=sample("What is the capital of France?", 100))
    return answer["capital_question"]["content"]["text"]


def input_required_result_list_roots() -> str:
    """Ask for the client's roots."""
    answer = current_call().ask(client_roots=roots())["client_roots"]
    return ", ".join(root["uri"] for root in answer["roots"])


def input_required_result_request_state() -> str:
    """Ask for a confirmation."""
    return _confirmed("state-ok")


def input_required_result_tampered_state() -> str:
    """Ask for a confirmation, of which the state is to be changed."""
    return _confirmed("confirmed")


def _confirmed(text: str) -> str:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    current_call().ask(confirm=form("Please confirm", schema))
    return text


def input_required_result_multiple_inputs() -> str:
    """Ask for several things at once."""
    answers = current_call().ask(
        user_name=_text_form("name", "What is your name?"),
        greeting=sample("Generate a greeting", 50),
        client_roots=roots(),
    )
    return f"{answers['greeting']['content']['text']} {answers['user_name']['content']['name']}"


def input_required_result_multi_round() -> str:
    """Ask for one thing after the other."""
    call = current_call()
    name = call.ask(step1=_text_form("name", "Step 1: What is your name?"))["step1"]["content"]["name"]
    color = call.ask(step2=_text_form("color", "Step 2: What is your favorite color?"))["step2"]
    return f"{name} likes {color['content']['color']}"


def input_required_result_capabilities() -> str:
    """Ask for what this client can answer."""
    call = current_call()
    questions = {"elicitation": _text_form("name", "Your name?"), "sampling": sample("Say hello", 10)}
    asked = call.ask(**{kind: question for kind, question in questions.items() if kind in call.asks})
    return ", ".join(asked)
