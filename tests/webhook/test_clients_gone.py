"""The API server waits for two seconds. A pod that started without an answer is not counted as one that was admitted."""

from __future__ import annotations

import asyncio
import socket
import ssl

from plimsoll.controllers.placement.webhook_configuration import PATH
from tests.eventually import eventually
from tests.placement.admission_scene import Scene, workload
from tests.webhook.test_admission_handler import AUTHORITY, ApiServer, review, serving


def connect(port: int) -> ssl.SSLSocket:
    tls = ssl.create_default_context(cadata=AUTHORITY.decode())
    return tls.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="127.0.0.1")


def post(body: bytes) -> bytes:
    return f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def test_a_question_that_was_given_up_before_its_turn_is_not_counted():
    """Under load, questions and the news that nobody waits for them any more arrive together."""
    deployment, replica_set = workload(3, "50%")
    scene = Scene(deployment, replica_set)
    async with serving(scene) as asking:
        connection = await asyncio.to_thread(connect, asking.port)
        connection.sendall(post(review(replica_set)))  # the server's loop is this one, and stands still meanwhile
        connection.close()
        await eventually(lambda: asking.results() == ["too-late"], "a question that comes too late")
        assert len(scene.admission.ledger) == 0


async def test_a_question_that_was_given_up_in_a_live_read_is_not_counted():
    deployment, replica_set = workload(3, "50%")
    api = ApiServer(deployment, replica_set)
    api.open.clear()
    scene = Scene()
    async with serving(scene, api) as asking:
        impatient = asyncio.create_task(asking.raw(review(replica_set)))
        await eventually(lambda: api.reads, "a live read")
        impatient.cancel()
        await asyncio.gather(impatient, return_exceptions=True)
        api.open.set()
        assert "patch" in await asking.about(replica_set)
        assert len(scene.admission.ledger) == 1, "the one that was answered"


async def test_many_connections_at_once_are_all_taken():
    """Those that find the queue full would be tried again after a second, which is half of the API server's patience."""
    deployment, replica_set = workload(400, "50%")
    async with serving(Scene(deployment, replica_set)) as asking:
        connections = [socket.socket() for _ in range(300)]
        for one in connections:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", asking.port))
        # The kernel alone takes them: the server's loop is this one, and has not run since.
        pending = [one for one in connections if one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) != b"\x01"]
        for one in connections:
            one.close()
        assert pending == [], "not established yet"
