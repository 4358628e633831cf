from __future__ import annotations

import pytest

from gpustack_op.api.meta import PartialObject, Resource
from gpustack_op.runtime.client import Client
from gpustack_op.runtime.config import ClientConfig
from gpustack_op.runtime.errors import Forbidden, MalformedAnswer
from gpustack_op.runtime.selector import Selector
from tests.runtime.apiserver import ApiServer, Lost, Reply, page, status
from tests.runtime.things import IN_A, PATH, THINGS, thing

ONE = f"{IN_A}/one"
BODY = {"metadata": {"name": "one", "namespace": "a"}, "spec": {"size": 3}}
TYPED = {"apiVersion": "example.com/v1", "kind": "Thing", **BODY}
NODES = Resource("", "v1", "nodes", "Node", PartialObject)


async def test_get(api: ApiServer, client: Client) -> None:
    api.script("get", ONE, Reply(body=thing("one", 8, size=3)))
    assert (await client.get(THINGS, "one", "a")).spec.size == 3


async def test_a_core_kind_and_a_name_that_needs_escaping(api: ApiServer, client: Client) -> None:
    api.script("get", "/api/v1/nodes/a:b/c", Reply(body={"metadata": {"name": "a:b/c"}}))
    assert (await client.get(NODES, "a:b/c")).name == "a:b/c"


async def test_list_asks_for_pages_and_passes_the_selector(api: ApiServer, client: Client) -> None:
    api.script("list", PATH, Reply(body=page(500, thing("one", 7), continuation="a+b/c=")))
    api.script("list", PATH, Reply(body=page(500, thing("two", 9))))
    found = await client.list(THINGS, selector=Selector(labels="a in (b,c)", fields="spec.nodeName=n"))
    assert [obj.name for obj in found] == ["one", "two"]
    assert [seen.query for seen in api.seen] == [
        {"limit": "500", "labelSelector": "a in (b,c)", "fieldSelector": "spec.nodeName=n"},
        {"limit": "500", "labelSelector": "a in (b,c)", "fieldSelector": "spec.nodeName=n", "continue": "a+b/c="},
    ]


async def test_list_in_one_namespace(api: ApiServer, client: Client) -> None:
    api.script("list", IN_A, Reply(body=page(500, thing("one", 7))))
    assert [obj.name for obj in await client.list(THINGS, "a")] == ["one"]


async def test_a_list_that_expires_half_way_begins_anew(api: ApiServer, client: Client) -> None:
    api.script("list", PATH, Reply(body=page(500, thing("gone", 7), continuation="more")))
    api.script("list", PATH, Reply(410, status(410, "Expired")))
    api.script("list", PATH, Reply(body=page(600, thing("one", 8))))
    assert [obj.name for obj in await client.list(THINGS)] == ["one"]


async def test_a_list_with_an_object_that_cannot_be_decoded_is_not_passed_off_as_whole(
    api: ApiServer, client: Client
) -> None:
    api.script("list", PATH, Reply(body=page(500, thing("one", 7), thing("bad", 8, size="none"))))
    with pytest.raises(MalformedAnswer, match="a/bad"):
        await client.list(THINGS)


async def test_create(api: ApiServer, client: Client) -> None:
    api.script("post", IN_A, Reply(201, thing("one", 8, size=3)))
    assert (await client.create(THINGS, BODY, field_manager="me")).metadata.resource_version == "8"
    assert (api.seen[0].body, api.seen[0].query) == (TYPED, {"fieldManager": "me"})


async def test_update_of_a_subresource(api: ApiServer, client: Client) -> None:
    api.script("put", f"{ONE}/status", Reply(body=thing("one", 8)))
    await client.update(THINGS, BODY, subresource="status")
    assert api.seen[0].body == TYPED


async def test_merge_patch(api: ApiServer, client: Client) -> None:
    api.script("patch", ONE, Reply(body=thing("one", 8)))
    await client.merge_patch(THINGS, "one", {"spec": {"size": None}}, namespace="a")
    assert api.seen[0].headers["Content-Type"] == "application/merge-patch+json"
    assert api.seen[0].body == {"spec": {"size": None}}


async def test_json_patch(api: ApiServer, client: Client) -> None:
    api.script("patch", ONE, Reply(body=thing("one", 8)))
    await client.json_patch(THINGS, "one", [{"op": "remove", "path": "/spec/size"}], namespace="a")
    assert api.seen[0].headers["Content-Type"] == "application/json-patch+json"
    assert api.seen[0].body == [{"op": "remove", "path": "/spec/size"}]


async def test_server_side_apply_says_who_applies_and_whether_by_force(api: ApiServer, client: Client) -> None:
    api.script("patch", f"{ONE}/status", Reply(body=thing("one", 8)), Reply(body=thing("one", 9)))
    await client.apply(THINGS, BODY, subresource="status", field_manager="me")
    await client.apply(THINGS, BODY, subresource="status", field_manager="me", force=False)
    assert api.seen[0].headers["Content-Type"] == "application/apply-patch+yaml"
    assert api.seen[0].body == TYPED
    assert [seen.query for seen in api.seen] == [
        {"fieldManager": "me", "force": "true"},
        {"fieldManager": "me", "force": "false"},
    ]


async def test_delete_carries_its_preconditions(api: ApiServer, client: Client) -> None:
    api.script("delete", ONE, Reply(body=status(200, "")))
    await client.delete(THINGS, "one", "a", uid="u", resource_version="7", propagation="Foreground")
    assert api.seen[0].body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "propagationPolicy": "Foreground",
    }


async def test_one_connection_serves_request_after_request(api: ApiServer, client: Client) -> None:
    api.script("get", ONE, *[Reply(body=thing("one", 8))] * 3)
    for _ in range(3):
        await client.get(THINGS, "one", "a")
    assert len({seen.peer for seen in api.seen}) == 1


async def test_answers_are_asked_for_uncompressed(api: ApiServer, client: Client) -> None:
    api.script("get", ONE, Reply(body=thing("one", 8)))
    await client.get(THINGS, "one", "a")
    assert api.seen[0].headers["Accept-Encoding"] == "identity"


async def test_every_exchange_is_counted_by_code_method_and_host(api: ApiServer) -> None:
    counted: list[tuple[str, str, str]] = []
    api.script("post", IN_A, Lost(), Reply(403, status(403, "Forbidden")))
    host = api.url.removeprefix("http://")
    async with Client(ClientConfig(server=api.url), observe=lambda *exchange: counted.append(exchange)) as client:
        with pytest.raises(Forbidden):
            await client.create(THINGS, BODY)
    assert counted == [("<error>", "POST", host), ("403", "POST", host)]


async def test_a_base_path_in_the_servers_url_is_kept(api: ApiServer) -> None:
    api.script("get", f"/clusters/c1{ONE}", Reply(body=thing("one", 8)))
    async with Client(ClientConfig(server=f"{api.url}/clusters/c1/")) as client:
        assert (await client.get(THINGS, "one", "a")).name == "one"


@pytest.mark.parametrize(("name", "namespace"), [("", "a"), ("one", "")])
async def test_a_name_or_namespace_that_is_missing_is_a_mistake_and_asks_nobody(
    api: ApiServer, client: Client, name: str, namespace: str
) -> None:
    with pytest.raises(ValueError, match="things"):
        await client.get(THINGS, name, namespace)
    assert api.seen == []


async def test_an_answer_that_is_no_object_is_named_as_such(api: ApiServer, client: Client) -> None:
    api.script("get", ONE, Reply(body=b"<html>welcome</html>", content_type="text/html"))
    with pytest.raises(MalformedAnswer):
        await client.get(THINGS, "one", "a")
