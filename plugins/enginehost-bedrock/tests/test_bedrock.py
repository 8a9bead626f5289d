"""Converse and ConverseStream: what is sent fits botocore's model, what comes is read as boto3 does."""

from __future__ import annotations

import base64
import hashlib
import tracemalloc
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import anyio
import boto3
import botocore.session
import orjson
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.validate import ParamValidator
from converse_wire import START, USAGE, delta, end, frame, stop, text, tool
from enginehost_bedrock import BedrockConfig, BedrockModel
from enginehost_bedrock.answer import Answer
from enginehost_bedrock.request import head_of
from enginehost_bedrock.rows import Rows
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.errors import (
    CallTimeout,
    ConfigError,
    EngineHostError,
    EngineUnavailable,
    ExecutionFailed,
    InvalidRequest,
    Overloaded,
)
from enginehost.llm.body import written
from enginehost.llm.message import Message, Role, Status, Type, Usage, system, user
from enginehost.llm.model import ModelRequest, ToolChoice
from enginehost.signature import FunctionSignature
from enginehost.testing import load_engine
from enginehost.testing.wire import CUT, HANG, Provider, Reply

Make = Callable[..., Any]
CLAUDE = "eu.anthropic.claude-sonnet-5-v1:0"
WEATHER = FunctionSignature("weather.now", "The weather.", {"type": "object", "properties": {"city": {}}})
TOOLS: dict[str, Any] = {"tools": [WEATHER], "names": {"weather.now": "weather_now"}}
PNG = base64.b64encode(b"\x89PNG").decode()


async def rows() -> AsyncIterator[Message]:
    yield user("hello")


async def ask(engine: Any, given: Any = rows, **request: Any) -> list[Message]:
    return [one async for one in engine.stream(given, ModelRequest(CLAUDE, **request))]


def conversation() -> Sequence[Message]:
    thought = {"bedrock": {"signature": "sig"}}
    pdf = {"media_type": "application/pdf", "name": "a_b.pdf"}
    return [
        system("Be brief."),
        user("Weather?"),
        Message(Role.USER, Type.IMAGE, PNG, {"media_type": "image/png"}),
        Message(Role.USER, Type.IMAGE, query={"media_type": "image/png", "url": "s3://bucket/x"}),
        Message(Role.USER, Type.FILE, PNG, pdf),
        Message(Role.USER, Type.FILE, PNG, pdf),
        Message(Role.ASSISTANT, Type.REASONING, "hm", provider=thought),
        Message(Role.ASSISTANT, Type.REASONING, provider={"bedrock": {"redacted": PNG}}),
        Message(Role.ASSISTANT, Type.REASONING, "of another", provider={"openai": {}}),
        Message(Role.ASSISTANT, content="  "),
        Message(
            Role.ASSISTANT, Type.TOOL_CALL, query={"tool": "weather.now", "id": "a", "args": {"city": 1}}
        ),
        Message(Role.ASSISTANT, Type.TOOL_CALL, query={"tool": "gone.one", "id": "b c", "args": {}}),
        Message(
            Role.TOOL, Type.TOOL_RESULT, '"su', {"tool": "weather.now", "id": "a"}, status=Status.OPEN, id="r"
        ),
        Message(Role.TOOL, Type.TOOL_RESULT, 'n"', {"tool": "weather.now", "id": "a"}, id="r"),
        Message(Role.TOOL, Type.TOOL_RESULT, '"no"', {"tool": "gone.one", "id": "b c", "error": True}),
    ]


async def body_of(given: Sequence[Message], model: str = CLAUDE, caches: bool = True, **request: Any) -> Any:
    asked = ModelRequest(model, **request)
    head, _ = head_of(asked, BedrockConfig())

    async def each() -> AsyncIterator[Message]:
        for row in given:
            yield row

    begin = orjson.dumps(head)[:-1] + (b"," if head else b"")
    chunks = [chunk async for chunk in written(begin, each(), Rows(asked, caches), b"}")]
    return orjson.loads(b"".join(chunks))


def check_against_botocore(body: Any) -> None:
    """Whether the body is what botocore itself would accept as parameters of ConverseStream."""
    service = botocore.session.Session().get_service_model("bedrock-runtime")
    shape = service.operation_model("ConverseStream").input_shape
    report = ParamValidator().validate({**body, "modelId": CLAUDE}, shape)
    assert not report.has_errors(), report.generate_report()


async def test_rows_become_what_botocores_model_of_converse_allows() -> None:
    choice = ToolChoice("tool", "weather.now")
    found = await body_of(
        conversation(), max_tokens=4000, temperature=0.5, stop=["x"], tool_choice=choice, **TOOLS
    )
    check_against_botocore(found)
    assert found["system"] == [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}]
    first, second, third = found["messages"]
    assert [turn["role"] for turn in found["messages"]] == ["user", "assistant", "user"]
    assert first["content"][1:4] == [
        {"image": {"format": "png", "source": {"bytes": PNG}}},
        {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://bucket/x"}}}},
        {"document": {"name": "a b pdf", "format": "pdf", "source": {"bytes": PNG}}},
    ]
    assert first["content"][4]["document"]["name"] == "a b pdf 2"
    assert second["content"][:3] == [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}},
        {"reasoningContent": {"redactedContent": PNG}},
        {"toolUse": {"toolUseId": "a", "name": "weather_now", "input": {"city": 1}}},
    ]
    strange = second["content"][3]["toolUse"]["toolUseId"]
    assert third["content"] == [
        {"toolResult": {"content": [{"text": '"sun"'}], "toolUseId": "a"}},
        {"toolResult": {"content": [{"text": '"no"'}], "toolUseId": strange, "status": "error"}},
        {"cachePoint": {"type": "default"}},
    ]
    assert found["toolConfig"]["toolChoice"] == {"tool": {"name": "weather_now"}}
    assert found["inferenceConfig"] == {"maxTokens": 4000, "temperature": 0.5, "stopSequences": ["x"]}
    plain = await body_of([user("x")], caches=False)
    assert plain == {"messages": [{"role": "user", "content": [{"text": "x"}]}]}


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (Message(Role.USER, Type.IMAGE, PNG, {"media_type": "image/tiff"}), "image/tiff"),
        (Message(Role.USER, Type.IMAGE, "", {"media_type": "image/png", "url": "https://x"}), "S3"),
        (Message(Role.USER, Type.FILE, PNG, {"media_type": "application/zip"}), "application/zip"),
        (Message(Role.USER, Type.COMPACTION, "x"), "compaction"),
    ],
)
async def test_what_converse_has_no_place_for_is_refused_with_the_reason(row: Message, told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        await body_of([row])


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        ({"reasoning": "low", "model": "meta.llama"}, "not known"),
        ({"tool_choice": ToolChoice("none"), **TOOLS}, "no tool"),
        ({"parallel_tools": False, **TOOLS}, "one tool"),
        ({"schema": {"type": "object"}, "reasoning": "low"}, "thinks"),
        ({"extra": {"messages": []}}, "messages"),
    ],
)
def test_what_converse_cannot_do_is_refused(request_: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        head_of(ModelRequest(**({"model": CLAUDE} | request_)), BedrockConfig())


async def test_reasoning_and_structured_output_are_asked_for_as_each_family_has_it() -> None:
    thinking = await body_of([user("x")], reasoning="high")
    check_against_botocore(thinking)
    assert thinking["additionalModelRequestFields"] == {"thinking": {"type": "adaptive"}}
    assert thinking["outputConfig"] == {"effort": "high"}
    budget = BedrockConfig.model_validate({"thinking": "budget"})
    older = head_of(ModelRequest(CLAUDE, reasoning="high"), budget)[0]
    assert older["additionalModelRequestFields"]["thinking"]["budget_tokens"] == 24576
    assert older["inferenceConfig"]["maxTokens"] == 4096 + 24576
    nova = head_of(ModelRequest("amazon.nova-2", reasoning="low"), BedrockConfig())[0]
    assert nova["additionalModelRequestFields"] == {
        "reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}
    }
    forced = await body_of([user("x")], schema={"type": "array"})
    check_against_botocore(forced)
    assert forced["toolConfig"]["toolChoice"] == {"tool": {"name": "answer"}}
    config = BedrockConfig.model_validate({"structured_output": "format"})
    own = head_of(ModelRequest(CLAUDE, schema={"type": "object"}), config)[0]
    check_against_botocore({**own, "messages": []})
    both = head_of(ModelRequest(CLAUDE, schema={"type": "object"}, reasoning="low"), config)[0]
    assert both["outputConfig"].keys() == {"effort", "textFormat"}


def said() -> list[bytes]:
    thought = [
        delta(0, reasoningContent={"text": "hm"}),
        delta(0, reasoningContent={"signature": "sig"}),
        stop(0),
    ]
    hidden = [delta(1, reasoningContent={"redactedContent": PNG}), stop(1)]
    calls = [*tool(3, '{"city"', ':"Bonn"}'), *tool(4)]
    strange = [frame("news", {"x": 1})]
    return [START, *thought, *hidden, *text(2, "Hel", "lo"), *strange, *calls, *end("tool_use")]


async def test_an_answer_comes_in_pieces_with_its_usage_at_the_end(server: Provider, model: Make) -> None:
    whole = b"".join(said())
    server.says(Reply([whole[:100], whole[100:101], whole[101:]]))  # cut anywhere
    found = await ask(await model())
    done = [one for one in found if one.whole]
    assert [one.type for one in done] == ["reasoning", "reasoning", "text", "tool_call", "tool_call"]
    assert done[0].provider == {"bedrock": {"signature": "sig"}}
    assert done[1].provider == {"bedrock": {"redacted": PNG}}
    assert [one.content for one in found if one.type is Type.TEXT] == ["Hel", "lo", ""]
    queries = [one.query or {} for one in done[3:]]
    assert [query["args"] for query in queries] == [{"city": "Bonn"}, {}]
    assert queries[0]["id"] != queries[1]["id"]
    assert found[-1].usage == Usage(7, 9, 5, model=CLAUDE)


async def test_real_boto3_reads_the_same_from_this_server_and_signs_alike(
    server: Provider, model: Make
) -> None:
    """So the server of these tests speaks as Bedrock does."""
    whole = b"".join(said())
    of_stream = {"content-type": "application/vnd.amazon.eventstream"}
    server.says(Reply([whole], headers=of_stream), Reply([whole], headers=of_stream))
    ours = await ask(await model())

    def theirs() -> tuple[str, list[str]]:
        client = boto3.client(
            "bedrock-runtime",
            region_name="eu-central-1",
            aws_access_key_id="AKID",
            aws_secret_access_key="very-secret",
            endpoint_url=server.url,
            config=Config(retries={"total_max_attempts": 1}),
        )
        messages = [{"role": "user", "content": [{"text": "hello"}, {"cachePoint": {"type": "default"}}]}]
        stream = client.converse_stream(modelId=CLAUDE, messages=messages)["stream"]
        deltas = [event["contentBlockDelta"]["delta"] for event in stream if "contentBlockDelta" in event]
        client.close()
        inputs = [one["toolUse"]["input"] for one in deltas if "toolUse" in one]
        return "".join(one.get("text", "") for one in deltas), inputs

    said_text, inputs = await anyio.to_thread.run_sync(theirs)
    assert said_text == "".join(one.content for one in ours if one.type is Type.TEXT)
    assert orjson.loads("".join(inputs)) == next(one for one in ours if one.query).query["args"]  # pyright: ignore
    mine, boto = server.seen
    assert (mine.path, mine.json()) == (boto.path, boto.json())
    assert scope(mine.headers["authorization"]) == scope(boto.headers["authorization"])


def scope(authorization: str) -> str:
    return authorization.partition("SignedHeaders")[0]


async def test_a_signature_covers_the_body_that_was_sent(server: Provider, model: Make) -> None:
    server.says(b"".join([START, *text(0, "ok"), *end("end_turn")]))
    await ask(await model(AWS_SESSION_TOKEN="token"))
    (seen,) = server.seen
    assert seen.headers["x-amz-content-sha256"] == hashlib.sha256(seen.body).hexdigest()
    assert not seen.chunked
    signed = ("content-type", "x-amz-content-sha256", "x-amz-security-token", "x-amz-date")
    headers = {name: seen.headers[name] for name in signed}
    again = AWSRequest("POST", server.url + seen.path, headers=headers)
    again.context["timestamp"] = seen.headers["x-amz-date"]
    signer = SigV4Auth(Credentials("AKID", "very-secret"), "bedrock", "eu-central-1")
    signature = signer.signature(signer.string_to_sign(again, signer.canonical_request(again)), again)
    assert seen.headers["authorization"].endswith(f"Signature={signature}")


async def test_an_api_key_needs_no_signature_and_no_file(server: Provider, model: Make) -> None:
    server.says(b"".join([START, *text(0, "ok"), *end("end_turn")]))
    await ask(await model(API_KEY="bearer-key", AWS_ACCESS_KEY=None, AWS_SECRET_KEY=None))
    (seen,) = server.seen
    assert seen.headers["authorization"] == "Bearer bearer-key"
    assert seen.chunked


async def test_converse_gives_the_same_answer_at_once(server: Provider, model: Make) -> None:
    content = [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}},
        {"text": "Hello"},
        {"toolUse": {"toolUseId": "t", "name": "weather_now", "input": {"city": "Bonn"}}},
    ]
    answer = {"output": {"message": {"content": content}}, "stopReason": "tool_use", "usage": USAGE}
    server.says(orjson.dumps(answer))
    found = await ask(await model(STREAM="false"))
    assert server.seen[0].path.endswith("/converse")
    assert [one.type for one in found if one.whole] == ["reasoning", "text", "tool_call"]
    assert "".join(one.content for one in found) == "hmHello"
    assert found[-1].usage == Usage(7, 9, 5, model=CLAUDE)


async def test_structured_output_is_data(server: Provider, model: Make) -> None:
    server.says(b"".join([START, *tool(0, '{"answer":[1]}', name="answer"), *end("tool_use")]))
    (only,) = await ask(await model(), schema={"type": "array"})
    assert (only.type, only.content) == (Type.DATA, "[1]")


@pytest.mark.parametrize(
    ("parts", "retryable"),
    [
        ([START, *text(0, "Hel")], True),
        ([START, delta(0, text="Hel"), CUT], True),
        ([START, *tool(0, '{"a": '), *end("tool_use")], True),
        ([START, *tool(0, '{"a": '), *end("max_tokens")], False),
        ([START, *end("malformed_tool_use")], True),
        ([START, *end("guardrail_intervened")], False),
        ([START, frame("modelStreamErrorException", {"message": "odd"}, "exception")], True),
        ([START, frame("validationException", {"message": "odd"}, "exception")], False),
        ([b"HTTP is not what this is, by far, is it"], True),
    ],
)
async def test_an_answer_that_is_no_whole_one_is_an_error(
    server: Provider, model: Make, parts: Any, retryable: bool
) -> None:
    server.says(Reply(parts))
    with pytest.raises(ExecutionFailed) as caught:
        await ask(await model())
    assert caught.value.detail["retryable"] is retryable


async def test_throttling_is_overloaded_before_and_inside_a_stream(server: Provider, model: Make) -> None:
    engine = await model()
    server.says(Reply([b'{"message":"slow"}'], 429, {"x-amzn-errortype": "ThrottlingException"}))
    server.says(Reply([START, frame("throttlingException", {"message": "slow"}, "exception")]))
    for _ in range(2):
        with pytest.raises(Overloaded, match="slow"):
            await ask(engine)
    server.says(Reply([b'{"message":"no such model"}'], 400))
    with pytest.raises(ExecutionFailed, match="no such model") as caught:
        await ask(engine)
    assert caught.value.detail["retryable"] is False


async def test_leaving_the_answer_closes_the_providers_connection(server: Provider, model: Make) -> None:
    server.says(Reply([START, delta(0, text="Hel"), HANG]))
    engine = await model()
    async with aclosing(engine.stream(rows, ModelRequest(CLAUDE))) as answer:
        assert (await anext(answer)).content == "Hel"
    with anyio.fail_after(5):
        await server.left.wait()


async def test_a_provider_that_hangs_or_is_away_is_told(server: Provider, model: Make) -> None:
    server.says(Reply([START, HANG]))
    with pytest.raises(CallTimeout):
        await ask(await model(), timeout=0.2)
    with pytest.raises(EngineUnavailable):
        await ask(await model(ENDPOINT="http://127.0.0.1:1"))


async def test_models_and_profiles_are_listed(server: Provider, model: Make) -> None:
    pages = (
        {"modelSummaries": [{"modelId": "a.b"}]},
        {"inferenceProfileSummaries": [{"inferenceProfileId": "eu.a.b"}], "nextToken": "n"},
        {"inferenceProfileSummaries": [{"inferenceProfileId": "us.a.b"}]},
    )
    server.says(*map(orjson.dumps, pages))
    assert await (await model()).models() == ["a.b", "eu.a.b", "us.a.b"]
    assert "nextToken=n" in server.seen[2].path
    assert await (await model(LIST_ENDPOINT=None)).models() == ()


async def test_a_missing_region_or_key_is_told_when_the_engine_opens(model: Make) -> None:
    with pytest.raises(ConfigError, match="region"):
        await model(AWS_REGION=None)
    with pytest.raises(ConfigError, match="credentials"):
        await model(AWS_ACCESS_KEY=None, AWS_SECRET_KEY=None)


async def test_the_addresses_are_boto3s(model: Make) -> None:
    engine = await model(ENDPOINT=None, LIST_ENDPOINT=None)
    assert engine._reached.runtime == "https://bedrock-runtime.eu-central-1.amazonaws.com"
    assert engine._reached.control == "https://bedrock.eu-central-1.amazonaws.com"


async def test_a_long_context_does_not_stand_in_memory(server: Provider, model: Make) -> None:
    async def many() -> AsyncIterator[Message]:
        for at in range(10_000):
            yield Message(Role.USER if at % 2 == 0 else Role.ASSISTANT, content="x" * 2000)

    server.says(b"".join([START, *text(0, "ok"), *end("end_turn")]))
    engine = await model()
    tracemalloc.start()
    try:
        await ask(engine, many)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert server.seen[0].size > 20_000_000
    assert peak < 12_000_000


def test_a_file_of_semoss_loads_without_a_finding(tmp_path: Path) -> None:
    smss = """
    ENGINE\t4801422a-5c62-421e-a00c-05c6a9e15de8
    ENGINE_ALIAS\tClaude
    ENGINE_TYPE\tprerna.engine.impl.model.BedrockEngine
    MODEL\tanthropic.claude-v2
    MODEL_TYPE\tBEDROCK
    AWS_REGION\tus-east-1
    AWS_ACCESS_KEY\tAK
    AWS_SECRET_KEY\tSK
    VAR_NAME\tclaude
    INIT_MODEL_ENGINE\timport genai_client;${VAR_NAME} = genai_client.BedrockClient()
    KEEP_CONVERSATION_HISTORY\tfalse
    KEEP_INPUT_OUTPUT\tfalse
    CHAT_TYPE\tchat-completion
    CONTEXT_WINDOW\t200000
    MAX_TOKENS\t4096
    MAX_INPUT_TOKENS\t
    """
    loaded = load_engine(BedrockModel, smss, tmp_path)
    assert loaded.record.diagnostics == ()
    config: Any = loaded.engine and loaded.engine.config  # pyright: ignore
    assert (config.model, config.aws_region, config.max_tokens) == ("anthropic.claude-v2", "us-east-1", 4096)


LEAVES = st.none() | st.booleans() | st.integers(0, 3) | st.text(max_size=4)
NAMES = st.sampled_from(
    [
        "contentBlockIndex",
        "delta",
        "start",
        "toolUse",
        "text",
        "input",
        "reasoningContent",
        "signature",
        "name",
        "toolUseId",
        "stopReason",
        "usage",
        "inputTokens",
        "output",
        "message",
        "content",
    ]
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.dictionaries(NAMES, inner, max_size=4) | st.lists(inner, max_size=3),
    max_leaves=12,
)
KINDS = st.sampled_from(
    ["contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata", "x"]
)


@settings(max_examples=150)
@given(st.lists(st.tuples(KINDS, st.dictionaries(NAMES, VALUES, max_size=4)), max_size=8))
def test_whatever_comes_is_a_message_or_an_error_of_ours(given_events: list[Any]) -> None:
    for event in given_events:
        answer = Answer("bedrock", "m")
        with suppress(EngineHostError):
            for message in [*answer.take(*event), *answer.whole(event[1])]:
                assert isinstance(message.content, str)
