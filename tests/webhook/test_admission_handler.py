"""Replies to the API server over TLS, in the expected form; in every case the pod is admitted."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from plimsoll.controllers.placement.admission.classify import LiveReadNeeded
from plimsoll.controllers.placement.webhook_configuration import PATH
from plimsoll.kube.client.client import Listing
from plimsoll.kube.client.errors import NotFound, Unreachable
from plimsoll.kube.codec import convert
from plimsoll.kube.types.apps import Deployment, ReplicaSet
from plimsoll.kube.types.meta import KubeObject, LabelSelector
from plimsoll.kube.types.resources import Resource
from plimsoll.runtime.clock import RealClock
from plimsoll.runtime.decision import Counter
from plimsoll.runtime.listen import CannotListenError
from plimsoll.webhook.admission_handler import AdmissionHandler
from plimsoll.webhook.certificates import make_certificate, serving_context
from plimsoll.webhook.live_reads import LiveReads, ReadResult, as_text
from plimsoll.webhook.server import FORWARDED, WebhookServer
from tests import build
from tests.eventually import eventually
from tests.placement.admission_scene import Scene, workload
from tests.placement.admission_scene import review as request_of

AUTHORITY, CERTIFICATE, KEY = make_certificate(["127.0.0.1"], datetime.now(UTC))


class ApiServer:
    """What a live read finds; it can be held up, or fail."""

    def __init__(self, *objects: KubeObject) -> None:
        self.objects = {(type(obj).__name__, obj.name): obj for obj in objects}
        self.reads: list[str] = []
        self.open = asyncio.Event()
        self.open.set()
        self.error: Exception | None = None

    async def get(self, resource: Resource[Any], namespace: str, name: str, *, urgent: bool = False) -> Any:
        self.reads.append(f"{resource.plural}/{name}")
        await self.open.wait()
        if self.error is not None:
            raise self.error
        found = self.objects.get((resource.kind, name))
        if found is None:
            raise NotFound(404, "NotFound", "gone")
        return found

    async def list(self, resource: Resource[Any], namespace: str, *, label_selector: str) -> Listing[Any]:
        self.reads.append(f"{resource.plural}?{label_selector}")
        await self.open.wait()
        return Listing(tuple(obj for obj in self.objects.values() if type(obj).__name__ == "Pod"), "500")


class Leader:
    """What a follower is told by the one that leads."""

    def __init__(self, answer: bytes | None) -> None:
        self.answer = answer
        self.asked: list[bytes] = []

    async def ask(self, body: bytes) -> bytes | None:
        self.asked.append(body)
        return self.answer


class Asking:
    def __init__(self, session: aiohttp.ClientSession, counts: list[Counter], port: int) -> None:
        self._session = session
        self.counts = counts
        self.port = port

    async def raw(self, body: bytes, *, path: str = PATH, **headers: str) -> tuple[int, bytes]:
        async with self._session.post(f"{path}?timeout=2s", data=body, headers=headers) as response:
            return response.status, await response.read()

    async def about(self, owner: KubeObject, **options: Any) -> dict[str, Any]:
        status, body = await self.raw(review(owner, **options))
        assert status == 200, body
        answer: dict[str, Any] = json.loads(body)
        assert answer["kind"] == "AdmissionReview"
        assert answer["apiVersion"] == "admission.k8s.io/v1"
        assert answer["response"]["uid"] == "705ab4f5"
        assert answer["response"]["allowed"] is True
        response: dict[str, Any] = answer["response"]
        return response

    def results(self) -> list[str]:
        return [one.labels["result"] for one in self.counts if one.name == "spotalis_webhook_requests_total"]


def review(owner: KubeObject, *, dry_run: bool = False) -> bytes:
    reference = {
        "apiVersion": "apps/v1", "kind": type(owner).__name__, "name": owner.name, "uid": owner.uid, "controller": True,
    }  # fmt: skip
    pod = {
        "metadata": {"generateName": f"{owner.name}-", "creationTimestamp": None, "ownerReferences": [reference]},
        "spec": {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "odd"}}}]},
        "status": {},
    }
    request = {
        "uid": "705ab4f5", "operation": "CREATE", "namespace": "default", "dryRun": dry_run, "object": pod, "oldObject": None,
    }  # fmt: skip
    return json.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}).encode()


def operations(response: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(base64.b64decode(response["patch"]))
    return found


def full(deployment: Deployment, replica_set: ReplicaSet) -> Scene:
    """All replicas that there should be were admitted just now."""
    scene = Scene(deployment, replica_set)
    scene.now_seconds = RealClock().monotonic()
    for _ in range(replica_set.spec.replicas):
        scene.admit(replica_set)
    return scene


@asynccontextmanager
async def serving(
    scene: Scene,
    api: ApiServer | None = None,
    *,
    leading: Callable[[], bool] = lambda: True,
    leader: Leader | None = None,
    look_seconds: float = 30.0,
) -> AsyncIterator[Asking]:
    counts: list[Counter] = []
    client: Any = api or ApiServer()
    looks = LiveReads(client, scene.admission, RealClock(), seconds=look_seconds)
    admissions = AdmissionHandler(
        scene.admission, looks, RealClock(),
        look_seconds=look_seconds, leading=leading, forwarding=leader, count=counts.append,
    )  # fmt: skip
    tls = ssl.create_default_context(cadata=AUTHORITY.decode())
    async with (
        WebhookServer("127.0.0.1", 0, serving_context(CERTIFICATE, KEY), admissions) as server,
        aiohttp.ClientSession(f"https://127.0.0.1:{server.port}", connector=aiohttp.TCPConnector(ssl=tls)) as session,
    ):
        yield Asking(session, counts, server.port)


async def test_a_class_comes_as_a_json_patch():
    deployment, replica_set = workload(2, "50%")
    async with serving(Scene(deployment, replica_set)) as asking:
        response = await asking.about(replica_set)
        assert response["patchType"] == "JSONPatch"
        assert {operation["path"] for operation in operations(response)} == {"/spec/affinity", "/metadata/annotations"}
        assert response["auditAnnotations"] == {"class": "on-demand", "reason": "share"}
        assert [one.labels for one in asking.counts if one.name == "spotalis_webhook_mutations_total"] == [
            {"resource_kind": "Pod", "mutation_type": "on-demand"}
        ]


async def test_what_is_left_alone_has_no_patch_and_says_why():
    lonely = build.replica_set()
    async with serving(Scene(lonely)) as asking:
        response = await asking.about(lonely)
        assert "patch" not in response
        assert response["auditAnnotations"] == {"left-alone": "NoWorkload"}
        assert asking.results() == ["left-alone"]


async def test_a_dry_run_counts_no_mutation():
    deployment, replica_set = workload(2, "50%")
    async with serving(Scene(deployment, replica_set)) as asking:
        assert "patch" in await asking.about(replica_set, dry_run=True)
        assert [one.name for one in asking.counts] == ["spotalis_webhook_requests_total"]


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b'{"request": 3}', b"\xff", b'{"request": {"uid": 1}}'])
async def test_nonsense_is_refused_and_does_no_harm(body: bytes):
    deployment, replica_set = workload(2, "50%")
    async with serving(Scene(deployment, replica_set)) as asking:
        status, text = await asking.raw(body)
        assert status == 400
        assert b"not an AdmissionReview" in text
        assert "patch" in await asking.about(replica_set)


async def test_other_paths_are_nobodys():
    async with serving(Scene()) as asking:
        assert (await asking.raw(b"{}", path="/"))[0] == 404


async def test_a_review_of_more_than_a_megabyte_is_read():
    deployment, replica_set = workload(2, "50%")
    body = json.loads(review(replica_set))
    body["request"]["object"]["metadata"]["annotations"] = {"big": "x" * 1_200_000}
    async with serving(Scene(deployment, replica_set)) as asking:
        status, answer = await asking.raw(json.dumps(body).encode())
        assert (status, "patch" in json.loads(answer)["response"]) == (200, True)


async def test_one_live_read_serves_all_who_wait():
    deployment, replica_set = workload(30, "50%")
    api = ApiServer(deployment, replica_set)
    api.open.clear()
    async with serving(Scene(), api) as asking:
        waiting = [asyncio.create_task(asking.about(replica_set)) for _ in range(20)]
        await eventually(lambda: api.reads, "a live read")
        api.open.set()
        responses = await asyncio.gather(*waiting)
        assert api.reads == ["replicasets/web-1", "deployments/web"]
        classes = [response["auditAnnotations"]["class"] for response in responses]
        assert (classes.count("on-demand"), classes.count("spot")) == (15, 5)


async def test_a_read_that_began_before_the_question_is_told_from_one_that_began_after():
    deployment, replica_set = workload(1, "0%")
    scene = full(deployment, replica_set)
    look = scene.ask(request_of(replica_set))
    assert isinstance(look, LiveReadNeeded)
    api, clock = ApiServer(deployment, replica_set), RealClock()
    api.open.clear()
    client: Any = api
    looks = LiveReads(client, scene.admission, clock, seconds=30)
    deadline = clock.monotonic() + 30
    first = asyncio.create_task(looks.look(look, since=clock.monotonic(), deadline=deadline))
    await eventually(lambda: len(api.reads) == 2, "a read of the ReplicaSet and one of the Deployment")
    second = asyncio.create_task(looks.look(look, since=clock.monotonic(), deadline=deadline))
    await asyncio.sleep(0)
    api.open.set()
    assert (await first, await second) == (ReadResult.FRESH, ReadResult.EARLIER)
    assert len(api.reads) == 2


async def test_where_nobody_is_missing_the_pods_are_read_too():
    deployment, replica_set = workload(1, "0%")
    api = ApiServer(deployment, replica_set)
    async with serving(full(deployment, replica_set), api) as asking:
        assert (await asking.about(replica_set))["auditAnnotations"] == {"class": "on-demand", "reason": "share"}
        assert sorted(api.reads) == ["deployments/web", "pods?app=web-1", "replicasets/web-1"]


async def test_a_live_read_that_fails_is_answered_approximately():
    deployment, replica_set = workload(1, "0%")
    scene = full(deployment, replica_set)
    api = ApiServer()
    api.error = Unreachable("refused")
    async with serving(scene, api) as asking:
        response = await asking.about(replica_set)
        assert response["auditAnnotations"] == {"class": "on-demand", "reason": "approximate"}
        assert asking.results() == ["approximate"]


async def test_a_live_read_that_hangs_is_not_waited_for():
    deployment, replica_set = workload(1, "0%")
    scene = full(deployment, replica_set)
    api = ApiServer()
    api.open.clear()
    async with serving(scene, api, look_seconds=0.05) as asking:
        assert (await asking.about(replica_set))["auditAnnotations"]["reason"] == "approximate"


async def test_an_owner_that_is_not_there_either_is_left_alone():
    async with serving(Scene(), ApiServer()) as asking:
        response = await asking.about(build.replica_set())
        assert response["auditAnnotations"] == {"left-alone": "OwnerUnknown"}


async def test_a_namesake_of_the_owner_is_not_taken_for_it():
    deployment, namesake = workload(2, "50%")
    gone = build.replica_set(namesake.name, owner=deployment)
    async with serving(Scene(deployment), ApiServer(deployment, namesake)) as asking:
        assert (await asking.about(gone))["auditAnnotations"] == {"left-alone": "OwnerUnknown"}


async def test_a_follower_passes_on_what_the_leader_says():
    deployment, replica_set = workload(2, "50%")
    leader = Leader(b'{"response": "the leader\'s"}')
    async with serving(Scene(deployment, replica_set), leading=lambda: False, leader=leader) as asking:
        assert (await asking.raw(review(replica_set)))[1] == leader.answer
        assert leader.asked == [review(replica_set)]


async def test_a_follower_without_a_leader_answers_itself_and_marks_the_pod():
    deployment, replica_set = workload(2, "50%")
    async with serving(Scene(deployment, replica_set), leading=lambda: False, leader=Leader(None)) as asking:
        assert (await asking.about(replica_set))["auditAnnotations"] == {"class": "on-demand", "reason": "approximate"}


async def test_a_follower_does_not_ask_about_what_needs_no_memory():
    stateful_set = build.stateful_set(
        annotations={"spotalis.io/enabled": "true", "spotalis.io/spot-percentage": "100%"}
    )
    unmanaged = build.deployment("plain")
    lone = build.replica_set("plain-1", owner=unmanaged)
    leader = Leader(b"{}")
    async with serving(Scene(stateful_set, unmanaged, lone), leading=lambda: False, leader=leader) as asking:
        await asking.about(lone)
        assert leader.asked == []


async def test_a_forwarded_question_is_answered_by_the_leader_only():
    deployment, replica_set = workload(2, "50%")
    leading = True
    async with serving(Scene(deployment, replica_set), leading=lambda: leading) as asking:
        assert (await asking.raw(review(replica_set), **{FORWARDED: "two"}))[0] == 200
        leading = False
        assert (await asking.raw(review(replica_set), **{FORWARDED: "two"}))[0] == 503


async def test_a_port_that_is_taken_is_told_in_words():
    async with serving(Scene()):
        admissions: Any = None
        tls = serving_context(CERTIFICATE, KEY)
        async with WebhookServer("127.0.0.1", 0, tls, admissions) as first:
            with pytest.raises(CannotListenError, match=r"webhook\.port"):
                await WebhookServer("127.0.0.1", first.port, tls, admissions).__aenter__()


def test_selectors_as_a_query():
    selector = convert(
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["a", "b"]},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "new", "operator": "Exists"},
                {"key": "x", "operator": "NotIn", "values": ["y"]},
            ],
        },
        LabelSelector,
    )
    assert as_text(selector) == "app=web,tier in (a,b),!old,new,x notin (y)"
