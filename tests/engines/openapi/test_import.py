"""``enginehost import openapi``: what is written is valid, and calls what the document says."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from openapi_spec_validator import validate

from enginehost import Host, HostSettings
from enginehost.errors import ConfigError, InvalidArguments

DOCUMENTS = Path(__file__).parent / "documents"
OK = {"200": {"description": "ok"}}


def host(folder: Path) -> Host:
    return Host(folder / "smss", None, settings=HostSettings(state_dir=folder / "state"), watch=False)


@pytest.fixture
def pets(secrets: Any) -> None:
    secrets(
        pet_store_key="k-1234",
        pet_store_in_query="q-1234",
        pet_store_login_username="ada",
        pet_store_login_password="pw-1234",
        pet_store_token="t-1234",
    )


@pytest.mark.parametrize("name", ["petstore-3.0.yaml", "tree-3.1.yaml"])
def test_the_documents_of_these_tests_are_valid(name: str) -> None:
    validate(yaml.safe_load((DOCUMENTS / name).read_text()), base_uri=(DOCUMENTS / name).as_uri())


async def test_every_operation_of_a_3_0_document_sends_what_it_says(
    service: Any, kit: Any, tmp_path: Path, pets: None
) -> None:
    outcome = kit.write(kit.documents / "petstore-3.0.yaml", tmp_path, base_url=f"{service.url}/v1/")
    assert len(outcome.written) == 9
    service.answer("/v1/pets", [], 200)
    async with host(tmp_path) as running:
        await running.call(
            "listPets",
            {
                "limit": 5,
                "tags": ["a", "b&c"],
                "filter": {"kind": "cat", "age": 3},
                "session": "s",
                "X-Request-ID": "r",
            },
        )
        seen = service.last
        assert (seen.method, seen.path) == ("GET", "/v1/pets")
        assert seen.query == [
            ("limit", "5"),
            ("tags", "a"),
            ("tags", "b&c"),
            ("filter[kind]", "cat"),
            ("filter[age]", "3"),
        ]
        assert seen.headers["cookie"] == "session=s"
        assert seen.headers["x-key"] == "k-1234"
        assert seen.headers["x-request-id"] == "r"
        with pytest.raises(InvalidArguments):
            await running.call("listPets", {"limit": 0})

        service.answer("/v1/pets", {"id": 1, "name": "Rex", "owner": None}, 201)
        made = await running.call("createPet", {"name": "Rex", "owner": None})
        assert made == {"id": 1, "name": "Rex", "owner": None}
        assert service.last.json == {"name": "Rex", "owner": None}
        with pytest.raises(InvalidArguments):
            await running.call("createPet", {"name": "Rex", "id": 1})

        service.answer("/v1/pets/7", {"id": 7, "name": "Rex"})
        assert (await running.call("showPetById", {"petId": 7}))["id"] == 7
        service.answer("/v1/pets/7", b"", 204)
        await running.call("replacePet", {"petId": 7, "body": {"kind": "cat", "lives": 9}})
        assert service.last.json == {"kind": "cat", "lives": 9}
        with pytest.raises(InvalidArguments):
            await running.call("replacePet", {"petId": 7, "body": {"kind": "cow"}})
        await running.call("delete_pets_by_petId", {"petId": 7})
        login = base64.b64encode(b"ada:pw-1234").decode()
        assert service.last.headers["authorization"] == f"Basic {login}"

        service.answer("/v1/pets/7/photo", 3)
        photo = {
            "content": base64.b64encode(b"\x00\xffx").decode(),
            "filename": "a.png",
            "content_type": "image/png",
        }
        await running.call("addPhoto", {"petId": 7, "photo": photo, "caption": "é"})
        assert service.last.query == [("api_key", "q-1234")]
        fields = {name: (file, kind, data) for name, file, kind, data in service.last.parts}
        assert fields["photo"] == ("a.png", "image/png", b"\x00\xffx")
        assert fields["caption"][2] == "é".encode()
        assert "api_key" not in running.entry("addPhoto").signature.properties

        service.answer("/v1/notes", b"heard", kind="text/plain")
        assert await running.call("addNote", {"body": "hello"}) == "heard"
        assert service.last.body == b"hello"
        assert service.last.headers["content-type"].startswith("text/plain")
        assert "authorization" not in service.last.headers
        await running.call("sendForm", {"name": "a b", "colours": ["red", "blue"]})
        assert service.last.form == [("name", "a b"), ("colours", "red"), ("colours", "blue")]
        assert service.last.headers["authorization"] == "Bearer t-1234"
        await running.call("lookAtForm", {})
        assert service.last.method == "HEAD"


async def test_every_operation_of_a_3_1_document_sends_what_it_says(
    service: Any, kit: Any, tmp_path: Path
) -> None:
    outcome = kit.write(kit.documents / "tree-3.1.yaml", tmp_path, base_url=service.url)
    assert [one.function for one in outcome.written] == [
        "plant_tree", "plant_tree_2", "shelves", "nest", "follow", "upload", "multipart",
    ]  # fmt: skip
    tree = {"value": None, "weight": 1, "children": [{"value": "a", "children": []}]}
    service.answer("/trees", tree)
    async with host(tmp_path) as running:
        assert await running.call("plant_tree", tree) == tree
        assert service.last.json == tree
        assert service.last.headers["accept"] == "application/json"
        with pytest.raises(InvalidArguments):
            await running.call("plant_tree", {"value": "x", "children": [{"value": 1}]})
        await running.call(
            "plant_tree_2",
            {
                "path": "a,b",
                ".ext": 5,
                "filter_name": "x",
                "ids": [1, 2],
                "path_query": "a",
                "since": "2026-01-02",
            },
        )
        assert service.last.path == "/trees/a,b/5"
        assert service.last.query == [
            ("filter[name]", "x"),
            ("ids", "1,2"),
            ("path", "a"),
            ("since", "2026-01-02"),
        ]
        service.answer("/shelves", {"next": {"next": {"books": 1}}})
        assert await running.call("shelves", {}) == {"next": {"next": {"books": 1}}}
        service.answer("/shelves", [[], [[]]])
        assert await running.call("nest", {"body": [[], [[]]]}) == [[], [[]]]
        assert service.last.json == [[], [[]]]
        service.answer("/events", b'data: 1\n\ndata: {"a": 2}\n\n', kind="text/event-stream")
        assert [one["data"] async for one in running.stream("follow", {})] == [1, {"a": 2}]
        service.answer("/upload", 3)
        await running.call("upload", {"body": base64.b64encode(b"\x00\x01\xff").decode()})
        assert service.last.body == b"\x00\x01\xff"
        await running.call("multipart", {"first": "1"})
        assert service.last.parts == [("first", None, "text/plain", b"1")]
        await running.call(
            "multipart", {"files": [base64.b64encode(b"x").decode(), base64.b64encode(b"y").decode()]}
        )
        assert [(name, data) for name, _, _, data in service.last.parts] == [("files", b"x"), ("files", b"y")]


def test_what_is_not_expressed_is_told_with_its_place(kit: Any, tmp_path: Path) -> None:
    outcome = kit.write(kit.documents / "tree-3.1.yaml", tmp_path)
    found = {note.message: note for one in outcome.written for note in one.notes}
    note = found["path: a list or an object in the path has to be given as text"]
    assert (note.pointer, note.line) == ("/paths/~1trees~1{path}~1{.ext}/get/parameters/0", 23)
    assert note.pointer in (tmp_path / "smss" / "plant_tree_2.smss").read_text().replace("\n#   ", "")
    assert [note.line for note in outcome.notes]


def test_annotations_tags_and_deprecation_are_taken_over(kit: Any, tmp_path: Path, pets: None) -> None:
    kit.write(kit.documents / "petstore-3.0.yaml", tmp_path, tags=("imported",))
    with_host: dict[str, Any] = {}
    from enginehost.cli.loading import open_all  # noqa: F401 - the loader below is the commands' own
    from enginehost.loader import folder_loader
    from enginehost.plugins import PluginRegistry
    from enginehost.secrets import Secrets

    loader = folder_loader(PluginRegistry(), Secrets(), HostSettings(), tmp_path, lambda _: None)
    for path in (tmp_path / "smss").glob("*.smss"):
        loaded = loader.load(path)
        assert loaded is not None
        with_host[path.stem] = loaded.functions[0].signature
    assert with_host["listPets"].tags == ("pets", "imported")
    assert with_host["listPets"].annotations.read_only is True
    assert with_host["delete_pets_by_petId"].annotations.destructive is True
    assert "deprecated" in with_host["replacePet"].tags
    assert with_host["replacePet"].description.startswith("Deprecated.")
    owner = with_host["createPet"].properties["owner"]["description"]
    assert owner == 'Costs ${price} and @ENGINE@, \\ "quoted"'


@pytest.mark.parametrize(
    ("include", "exclude", "names"),
    [
        (("list*",), (), {"listPets"}),
        (("/pets/*",), ("DELETE *",), {"showPetById", "replacePet", "addPhoto"}),
        (("tag:pets",), ("createPet",), {"listPets"}),
        (("HEAD /forms",), (), {"lookAtForm"}),
    ],
)
def test_operations_are_chosen(
    kit: Any, tmp_path: Path, pets: None, include: Any, exclude: Any, names: set[str]
) -> None:
    outcome = kit.write(kit.documents / "petstore-3.0.yaml", tmp_path, include=include, exclude=exclude)
    assert {one.function for one in outcome.written} == names


def test_another_import_leaves_what_is_unchanged_and_what_was_edited(kit: Any, tmp_path: Path) -> None:
    def item(summary: str) -> dict[str, Any]:
        return {"get": {"summary": summary, "responses": OK}}

    paths = {"/a": item("one"), "/b": item("one"), "/c": item("one"), "/d": item("one")}
    assert kit.write(kit.document(paths), tmp_path).counts() == {"created": 4}
    before = (tmp_path / "smss" / "get_a.smss").stat().st_mtime_ns
    for name in ("get_b", "get_c"):
        path = tmp_path / "smss" / f"{name}.smss"
        path.write_text(path.read_text() + "TIMEOUT_SECONDS = 5\n")
    paths |= {"/c": item("two"), "/d": item("two")}
    outcome = kit.write(kit.document(paths), tmp_path)
    assert {one.path.stem: str(one.status) for one in outcome.written} == {
        "get_a": "unchanged", "get_b": "edited", "get_c": "conflict", "get_d": "updated",
    }  # fmt: skip
    assert (tmp_path / "smss" / "get_a.smss").stat().st_mtime_ns == before
    assert "TIMEOUT_SECONDS" in (tmp_path / "smss" / "get_c.smss").read_text()
    del paths["/a"]
    outcome = kit.write(kit.document(paths), tmp_path, force=True)
    assert [path.stem for path in outcome.gone] == ["get_a"]
    assert outcome.counts() == {"unchanged": 1, "overwritten": 2}


def test_a_file_that_is_not_of_the_import_stays(kit: Any, tmp_path: Path) -> None:
    (tmp_path / "smss").mkdir()
    path = tmp_path / "smss" / "get_a.smss"
    text = "ENGINE_CLASS = REST\nURL = http://h/\nFUNCTION_NAME = mine\nFUNCTION_DESCRIPTION = Mine.\n"
    path.write_text(text)
    outcome = kit.write(kit.document({"/a": {"get": {"responses": OK}}}), tmp_path)
    assert outcome.counts() == {"foreign": 1}
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"swagger": "2.0"}', "Swagger 2.0"),
        ('{"openapi": "4.0.0"}', "OpenAPI 4.0.0"),
        ("[]", "no OpenAPI document"),
        ("{", "not JSON"),
        ("a: [", "not YAML"),
        ("a: *b", "stands inside what it means"),
        ("a: &a [*a]", "stands inside what it means"),
        ("a: !!python/object:os.system {}", "the tag"),
        ("---\na: 1\n---\nb: 1", "second document"),
        ("[" * 5000 + "]" * 5000, "nested|not JSON"),
        ("a: " + "[" * 5000 + "]" * 5000, "nest"),
        (
            "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
            + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)),
            "aliases counted",
        ),
    ],
)
def test_a_hostile_or_foreign_document_is_refused(kit: Any, tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "document"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        kit.write(path, tmp_path)


def test_references_in_a_circle_lose_one_operation_only(kit: Any, tmp_path: Path) -> None:
    paths = {
        "/a": {"get": {"parameters": [{"$ref": "#/components/parameters/A"}], "responses": OK}},
        "/b": {"get": {"responses": OK}},
        "/c": {"$ref": "#/paths/~1c"},
    }
    ring = {"A": {"$ref": "#/components/parameters/B"}, "B": {"$ref": "#/components/parameters/A"}}
    outcome = kit.write(kit.document(paths, components={"parameters": ring}), tmp_path)
    assert [one.function for one in outcome.written] == ["get_b"]
    assert len(outcome.skipped) == 2


def test_schemas_that_only_refer_to_each_other_are_left_open(kit: Any, tmp_path: Path) -> None:
    body = {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}}
    ring = {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}}
    outcome = kit.write(
        kit.document({"/a": {"post": {"requestBody": body, "responses": OK}}}, components={"schemas": ring}),
        tmp_path,
    )
    assert len(outcome.written) == 1


def test_a_long_chain_of_schemas_is_bounded(kit: Any, tmp_path: Path) -> None:
    chain = {
        f"S{n}": {
            "type": "object",
            "description": "d" * 400,
            "properties": {"n": {"$ref": f"#/components/schemas/S{n + 1}"}},
        }
        for n in range(3000)
    }
    chain["S3000"] = {"type": "string"}
    body = {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/S0"}}},
    }
    outcome = kit.write(
        kit.document({"/a": {"post": {"requestBody": body, "responses": OK}}}, components={"schemas": chain}),
        tmp_path,
    )
    assert any("left open" in note.message for note in outcome.written[0].notes)
    assert outcome.written[0].path.stat().st_size < 40_000


@pytest.mark.parametrize(
    "address",
    [
        "../secret.json",
        "/etc/passwd",
        "file:///etc/passwd",
        "http://h.test/x.json",
        "link.json",
        "http://[x/y",
        "a%00b",
    ],
)
def test_only_files_of_the_documents_own_folder_are_read(kit: Any, tmp_path: Path, address: str) -> None:
    (tmp_path / "secret.json").write_text(json.dumps({"get": {"responses": OK}}))
    folder = tmp_path / "inner"
    folder.mkdir()
    (folder / "link.json").symlink_to(tmp_path / "secret.json")
    outcome = kit.write(kit.document({"/a": {"$ref": address}}), folder)
    assert outcome.written == []
    assert "leads nowhere" in outcome.skipped[0].message


def test_schemas_that_no_check_understands_are_left_open_and_told(kit: Any, tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "pattern": "(["},
            "b": {"type": "any"},
            "c": {"minimum": "1", "type": "integer"},
        },
    }
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    outcome = kit.write(kit.document({"/a": {"post": {"requestBody": body, "responses": OK}}}), tmp_path)
    assert {note.pointer.rpartition("/")[2] for note in outcome.written[0].notes} == {"pattern", "minimum"}


def test_a_document_without_a_host_asks_for_one(kit: Any, tmp_path: Path) -> None:
    document = kit.document({"/a": {"get": {"responses": OK}}}) | {"servers": [{"url": "/v1"}]}
    outcome = kit.write(document, tmp_path)
    assert outcome.written == []
    assert "--base-url" in outcome.skipped[0].message


@pytest.mark.parametrize(
    ("flow", "needs"),
    [
        ("clientCredentials", "a client id and secret, with which tokens are got"),
        ("implicit", "a token with read"),
    ],
)
def test_what_oauth_needs_is_told(kit: Any, tmp_path: Path, secrets: Any, flow: str, needs: str) -> None:
    secrets(t_oa="t-12345", t_oa_client_id="c-12345", t_oa_client_secret="s-12345")
    url = "https://login.example.org/oauth2"
    flows = {flow: {"tokenUrl": url, "authorizationUrl": url, "scopes": {"read": "Reads."}}}
    schemes = {"oa": {"type": "oauth2", "flows": flows}}
    paths = {"/a": {"get": {"operationId": "a", "responses": OK, "security": [{"oa": ["read"]}]}}}
    outcome = kit.write(kit.document(paths, components={"securitySchemes": schemes}), tmp_path)
    assert f"oa is oauth2: it needs {needs}" in {note.message for note in outcome.written[0].notes}
