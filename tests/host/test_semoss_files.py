"""Files as SEMOSS and its users write them load unchanged."""

from __future__ import annotations

from pathlib import Path

from pydantic import AliasChoices, Field

from enginehost.config import EngineConfig, check_keys, read_config
from enginehost.diagnostics import Severity
from enginehost.interpret import Declaration, interpret
from enginehost.keys import COMMON_KEYS, SEMOSS_KEYS
from enginehost.parameters import SignatureParts, read_signature

PYTHON = """#Base Properties
ENGINE\t0b4d7c2e-1111-4222-8333-944455566677
ENGINE_ALIAS\tOrder Sums
ENGINE_TYPE\tprerna.engine.impl.function.LocalPythonFunctionEngine

FUNCTION_TYPE\tLOCAL_PYTHON
NAME\tOrder Sums
PYTHON_FILE_NAME\torder_sums.py
FUNCTION_NAME\tsum_order
FUNCTION_DESCRIPTION\tSums the positions of an order and adds a discount
FUNCTION_PARAMETERS\t[{"parameterName":"rows","parameterType":"array","parameterDescription":"id, amount"},\\
\t{"parameterName":"discount","parameterType":"double","parameterDescription":"Fraction; 0.1 is a tenth"}]
FUNCTION_REQUIRED_PARAMETERS\t["rows"]
INIT_FUNCTION_ENGINE\tunit='${CURRENCY}';use_unit(unit)
CURRENCY\tCHF
IDLE_TIMEOUT\t20
LOGGER_LEVEL\tDEBUG
"""

REST = """# written by a form, mended by hand
ENGINE = 77aa0c1e-2222-4333-8444-955566677788
ENGINE_ALIAS = Tide Times
ENGINE_TYPE = prerna.engine.impl.function.RESTFunctionEngine

FUNCTION_TYPE = REST
NAME = Tide Times
URL = https://tides.example.invalid/v2/next
HTTP_METHOD = get
CONTENT_TYPE =
HEADERS = {"X-Api-Key": "put-yours-here", "Accept": "application/json"}
FUNCTION_NAME = next_tide
FUNCTION_DESCRIPTION = Next high and low water of one harbour
FUNCTION_PARAMETERS = [\
{"parameterName":"north","parameterType":"String","parameterDescription":"Degrees north"},\
{"parameterName":"east","parameterType":"String","parameterDescription":"Degrees east"}]
FUNCTION_REQUIRED_PARAMETERS = ["north","east"]
PIPELINE = pipeline.json
MCP_ENABLED = false
"""

REACTOR = """#Base Properties
ENGINE:not-a-uuid-0042
ENGINE_ALIAS:Parcel Lookup
ENGINE_TYPE:org.example.semoss.ParcelLookupFunctionEngine

FUNCTION_NAME:parcel_lookup
FUNCTION_DESCRIPTION:Finds the parcels of one sender
FUNCTION_PARAMETERS:[\
{parameterName:'senderId',parameterType:'String',parameterDescription:'Number of the sender'},\
{parameterName:'most',parameterType:'int',parameterDescription:'Rows at most'}]
FUNCTION_REQUIRED_PARAMETERS:['senderId']
DEFAULT_THRESHOLD:0.4
"""


class PythonConfig(EngineConfig):
    python_file_name: str
    init_function_engine: str = ""
    idle_timeout: float = 30
    logger_level: str = "WARNING"


class RestConfig(EngineConfig):
    url: str = Field(validation_alias=AliasChoices("API_ENDPOINT_URL", "URL"))
    http_method: str
    content_type: str = Field("json", json_schema_extra={"blank": "keep"})
    headers: dict[str, str] = Field(default_factory=dict)


def read(text: str, name: str, model: type[EngineConfig]) -> tuple[Declaration, SignatureParts, EngineConfig]:
    declaration = interpret(text.encode(), Path(name))
    parts, config = read_signature(declaration), read_config(declaration, model)
    declaration.properties()
    check_keys(declaration, model)
    assert parts.known
    assert config is not None
    return declaration, parts, config


def test_a_local_python_file() -> None:
    declaration, parts, config = read(PYTHON, "Order Sums__0b4d7c2e.smss", PythonConfig)
    assert not declaration.diagnostics
    assert declaration.unique_name == "Order Sums__0b4d7c2e-1111-4222-8333-944455566677"
    assert declaration.engine_class == "prerna.engine.impl.function.LocalPythonFunctionEngine"
    assert parts.coerce_text
    assert parts.signature is not None
    assert parts.signature.name == "sum_order"
    assert parts.signature.parameters == {
        "type": "object",
        "properties": {
            "rows": {"type": "array", "description": "id, amount"},
            "discount": {"type": "number", "description": "Fraction; 0.1 is a tenth"},
        },
        "required": ["rows"],
    }
    assert config == PythonConfig(
        python_file_name="order_sums.py",
        init_function_engine="unit='CHF';use_unit(unit)",
        idle_timeout=20,
        logger_level="DEBUG",
    )


def test_a_rest_file_in_which_a_blank_content_type_is_not_the_default() -> None:
    declaration, parts, config = read(REST, "Tide Times__77aa0c1e.smss", RestConfig)
    assert not declaration.diagnostics
    assert isinstance(config, RestConfig)
    assert (config.url, config.http_method, config.content_type) == (
        "https://tides.example.invalid/v2/next",
        "get",
        "",
    )
    assert config.headers == {"X-Api-Key": "put-yours-here", "Accept": "application/json"}
    assert parts.signature is not None
    assert parts.signature.required == ("north", "east")


def test_a_reactor_file_with_lenient_json() -> None:
    declaration, parts, _ = read(REACTOR, "Parcel Lookup__0042.smss", EngineConfig)
    assert [(d.code, d.severity, d.line) for d in declaration.diagnostics] == [
        ("lenient-json", Severity.WARNING, 8),
        ("lenient-json", Severity.WARNING, 9),
    ]
    assert declaration.engine_id == "not-a-uuid-0042"
    assert parts.signature is not None
    assert parts.signature.parameters == {
        "type": "object",
        "properties": {
            "senderId": {"type": "string", "description": "Number of the sender"},
            "most": {"type": "integer", "description": "Rows at most"},
        },
        "required": ["senderId"],
    }


def test_a_file_whose_details_are_in_the_secret_store_opens() -> None:
    base, _, details = PYTHON.partition("\n\n")
    declaration = interpret(base.encode(), Path("Order Sums__0b4d7c2e.smss"))
    declaration.overlay(interpret(details.encode(), Path("store")).properties() | {"IDLE_TIMEOUT": 5})
    config = read_config(declaration, PythonConfig)
    assert read_signature(declaration).known
    assert config is not None
    assert (config.idle_timeout, config.python_file_name) == (5, "order_sums.py")


def test_the_table_of_common_keys_says_what_each_means() -> None:
    assert all(key == key.upper() and meaning.endswith(".") for key, meaning in COMMON_KEYS.items())
    assert all(key == key.upper() for key in SEMOSS_KEYS)
