"""What would bring a function here whose engine class nobody provides.

The classes are SEMOSS's function engines; their Java names end in ``FunctionEngine`` or ``Engine``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from enginehost.known_classes import SEMOSS_PREFIX

_R_CLASS = re.compile(r"(?:^|Local)R(?:Script|Function|Native|Serve|Engine|$)")
_ENDING = re.compile(r"(?:CustomEmbeddings)?(?:FunctionEngine|Engine)?$")
_MAIL = re.compile(r"smtp|pop3|imap|mail|exchange", re.IGNORECASE)

_AWS = "write it with LocalPython and boto3"
_GUARDED = "ask a model with LocalPython, and decide there"

_BY_CLASS: Mapping[str, str] = {
    "AWSTextract": _AWS,
    "AWSTranscribe": _AWS,
    "AWSPolly": _AWS,
    "AWSComprehend": _AWS,
    "AWSRekognition": _AWS,
    "OpenAITranscribe": "the service speaks HTTP: write it with REST, or with LocalPython and openai",
    "GoogleOCR": "write it with LocalPython and google-cloud-documentai",
    "GoogleSpeechToText": "write it with LocalPython and google-cloud-speech",
    "AzureDocumentIntelligence": "write it with LocalPython and azure-ai-documentintelligence",
    "AzureOCR": "write it with LocalPython and azure-ai-documentintelligence",
    "AzureSpeechToText": "write it with LocalPython and azure-cognitiveservices-speech",
    "TesseractOCR": "write it with LocalPython and pytesseract",
    "BraveSearch": "the service speaks HTTP: write it with REST (its key goes into API_KEY_VALUE)",
    "BingSearch": "the service speaks HTTP: write it with REST",
    "ServiceNow": "the service speaks HTTP: write it with REST and AUTH",
    "ImageDescription": _GUARDED,
    "Sentiment": _GUARDED,
    "Topic": _GUARDED,
    "LocalPython": "it fills vector stores of SEMOSS; name the function itself in a file with LocalPython",
}
_FOLDED = {name.casefold(): advice for name, advice in _BY_CLASS.items()}


def advice(class_name: str, folders: Iterable[Path]) -> str:
    """What to do about a class that nobody provides; empty where nothing is known of it."""
    simple = class_name.rpartition(".")[2]
    if _R_CLASS.search(simple) or ".r." in class_name.lower():
        return _for_r(folders)
    if not class_name.startswith(SEMOSS_PREFIX):
        return _for_own_class(class_name)
    if _MAIL.search(simple):
        return "write it with LocalPython: smtplib, poplib and imaplib are Python's own"
    return _FOLDED.get(_ENDING.sub("", simple).casefold(), "")


def _for_r(folders: Iterable[Path]) -> str:
    scripts = (
        path.relative_to(folder.parent) for folder in folders for path in sorted(folder.rglob("*.[rR]"))
    )
    name = next((path.as_posix() for path in scripts), "script.R")
    return f'ENGINE_CLASS = Command runs R: COMMAND = ["Rscript", "{name}", …] (docs/command.md)'


def _for_own_class(class_name: str) -> str:
    if "." not in class_name or ":" in class_name:
        return ""
    return "a class in Java does not run here; docs/reactor.md shows how to port a reactor to Python"


_MISSING = re.compile(r"No module named '([\w.]+)'")
_PLATFORM = ("gaas_", "semoss", "smssutil", "clean", "genai_client", "ai_server")


def advice_on_load(message: str) -> str:
    """What to do about code that did not load, where its message tells; else empty."""
    found = _MISSING.search(message)
    if found is None:
        return ""
    module = found[1].partition(".")[0]
    if module.startswith(_PLATFORM):
        return f"{module} is a part of SEMOSS's own Python: put in its place what the function needs of it"
    return f"install what brings {module} into the Python that runs the host"
