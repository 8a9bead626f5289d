"""The keys that any smss file may have, whatever its engine.

Each engine's own keys stand in its config model. The reference of keys is generated from both.
"""

from __future__ import annotations

from collections.abc import Mapping

COMMON_KEYS: Mapping[str, str] = {
    "ENGINE": "Id of the engine: any text, unique in the folder. Absent: taken from the file name.",
    "ENGINE_ALIAS": "Name for people, and the alias part of SEMOSS's folder name.",
    "ENGINE_DISPLAY_NAME": "Name for people where ENGINE_ALIAS is absent.",
    "NAME": "Name for people where both others are absent; SEMOSS's form writes it.",
    "ENGINE_CLASS": "Kind of engine: an alias (LocalPython, REST), a SEMOSS class, or package.module:Class.",
    "ENGINE_TYPE": "SEMOSS's name for ENGINE_CLASS, which counts where both stand.",
    "FUNCTION_NAME": "Name under which the function is called.",
    "FUNCTION_DESCRIPTION": "What the function does, for people and models.",
    "FUNCTION_PARAMETERS": "JSON list of parameters (name, type, description, required, any keyword of "
    "JSON Schema), or one JSON Schema object.",
    "FUNCTION_REQUIRED_PARAMETERS": "JSON list of the names that a caller must give.",
    "FUNCTION_RESULT": "JSON Schema of the result.",
    "FUNCTION_ANNOTATIONS": "JSON object: title, readOnly, destructive, idempotent, openWorld.",
    "FUNCTION_TAGS": "JSON list or comma-separated words (without quotes and brackets); they select "
    "functions on every face.",
    "FUNCTION_BIND": "JSON object: parameters that the host fills in (constants, ${secret:…}, "
    "$caller.subject); they stand in no spec.",
    "FUNCTION_MCP": "What the function is for MCP's clients: tool (the default), prompt, or the URI of a "
    "resource ({parameter} in it makes a template), after which its media type may stand.",
    "TIMEOUT_SECONDS": "Longest time of one call, in seconds.",
    "MAX_CONCURRENCY": "Calls that may run at once.",
    "QUEUE_LIMIT": "Calls that may wait for one of those.",
    "RATE_LIMIT": "Calls per time: 100/s, 20/minute, 5/h.",
    "MAX_RESULT_BYTES": "Largest result, in bytes of JSON.",
    "APPROVAL": "When a person has to agree before a call of an agent or an MCP client runs: never, always, "
    "destructive (SEMOSS: auto, ask, yesno, disabled). For other clients a statement: the host shows it.",
}
"""Keys of every engine with their meaning."""

_SEMOSS_WORDS = """
FUNCTION_TYPE GUARDRAIL_TYPE PIPELINE MCP_ENABLED KEEP_INPUT_OUTPUT KEEP_CONVERSATION_HISTORY INSIGHT
PROJECT PROJECT_ALIAS PROJECT_TYPE PROJECT_ENUM_TYPE OWL RDBMS_TYPE DRIVER CONNECTION_URL USERNAME PASSWORD
PYTHON_FILE_NAME INIT_FUNCTION_ENGINE INIT_MODEL_ENGINE IDLE_TIMEOUT FORCE_PORT TCP_WORKER_CP LOGGER_LEVEL
VAR_NAME T_ENGINE MIN MAX CAN_PROCESS_FUNCTION_NAME
HTTP_METHOD URL HEADERS CONTENT_TYPE ENDPOINT API_KEY MODEL MODEL_TYPE
ACCESS_KEY SECRET_KEY REGION BUCKETNAME S3BUCKETENGINEID STORAGE_PATH PAGE_LENGTH OBJECT_PATH
PROJECT_ID PROCESSOR_ID GOOGLE_BUCKET_ENGINEID SERVICE_ACCOUNT_CREDENTIALS SPEECH_KEY SPEECH_REGION
TESSDATA_PATH NATIVE_LIB_PATH LANGUAGE DPI PAGE_SEGMENTATION_MODE IMAGE_ENGINE_ID
COUNT COUNTRY SEARCH_LANGUAGE UI_LANGUAGE SAFE_SEARCH FRESHNESS EXTRA_SNIPPETS SNIPPET_LENGTH
AUTH_TYPE INSTRUCTION REASONING_EFFORT ALLOWED_DOMAINS BLOCKED_DOMAINS SEARCH_CONTEXT_SIZE CITY TIMEZONE
BASIC_USERNAME BASIC_PASSWORD OAUTH_ENDPOINT OAUTH_GRANT_TYPE OAUTH_CLIENT OAUTH_SECRET DEFAULT_TABLE
TABLE_API_PATH LIMIT FIELDS DISPLAY_VALUE EXCLUDE_REFERENCE_LINK
MAIL_TRANSPORT ONLY_CUSTOM_PROPS CONNECTION_TIMEOUT READ_TIMEOUT EXCHANGE_TENANT EXCHANGE_CLIENT_ID
EXCHANGE_CLIENT_SECRET EXCHANGE_SCOPE GRAPH_BASE_URL POP3_HOST POP3_PORT POP3_USERNAME POP3_PASSWORD
POP3_SECURITY IMAP_HOST IMAP_PORT IMAP_USERNAME IMAP_PASSWORD IMAP_SECURITY MAX_MESSAGES DEFAULT_MESSAGES
MAX_BODY_CHARS ALLOWED_SENDER_DOMAINS ALLOW_ATTACHMENT_DOWNLOAD MAX_ATTACHMENT_SIZE
MODEL_NAME LABEL_DECISION_MAP NER_LABELS DEFAULT_THRESHOLD DEFAULT_DECISION DEFAULT_MAX_LENGTH
TRUST_REMOTE_CODE USE_CUDA DEVICE VECTOR_ENGINE_ID MODEL_ENGINE_ID POLICY_DESCRIPTION BLOCKED_MESSAGE
CHAT_TYPE CONTEXT_WINDOW MAX_INPUT_TOKENS MODEL_BRAND CAPABILITY
"""

PUBLIC_KEYS: tuple[str, ...] = (
    *("ENGINE", "ENGINE_ALIAS", "ENGINE_DISPLAY_NAME", "NAME"),
    *("FUNCTION_NAME", "FUNCTION_DESCRIPTION", "FUNCTION_PARAMETERS", "FUNCTION_REQUIRED_PARAMETERS"),
    *("FUNCTION_RESULT", "FUNCTION_ANNOTATIONS", "FUNCTION_TAGS", "FUNCTION_MCP"),
)
"""Keys whose values every caller reads."""

SEMOSS_KEYS: frozenset[str] = frozenset(_SEMOSS_WORDS.split())
"""Keys that SEMOSS's engines read or write: accepted without complaint, with or without an effect."""

SEMOSS_PREFIXES: tuple[str, ...] = ("MAIL.",)
"""Beginnings of keys that SEMOSS passes through to a library."""

NO_EFFECT: Mapping[str, str] = {
    "VIRTUAL_ENV_ENGINE": "SEMOSS keeps that environment apart from its engines: PYTHON_VENV names one here, "
    "PYTHON_REQUIREMENTS has one built",
    "PYTHON_MEMORY_MB": "the code's memory is not limited; LocalPython, Reactor and classes read this key",
    "DATABUS_SERVICE": "the setting databus.service names it, for all functions of the host",
}
"""Keys that promise what the host does not do, unless an engine's model has them: what happens instead."""

NO_EFFECT_PREFIXES: Mapping[str, str] = {
    "AGENT_": "this kind of engine runs no agent",
    "MODEL_": "this kind of engine runs no model",
}
"""Beginnings of such keys."""
