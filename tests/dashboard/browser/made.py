"""Pictures as the server tells them, made up: of any size, in states and with names that no API server would allow."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

Json = dict[str, Any]

ZONES = ("eu-west-1a", "eu-west-1b", "eu-west-1c")
GROUPS = (("plimsoll/general", "on-demand"), ("plimsoll/burst-spot", "spot"), ("plimsoll/memory-spot", "spot"))
CONTROLLERS = ["placement", "deletion-cost", "nodegroups", "allocation"]
GIB = 1024**3
# Without a slash, which no name can have: it parts the names in keys.
MARKUP = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'"
RIGHT_TO_LEFT = "web-\u202egnp.exe-\u2066x"
LONGEST = "n" * 243 + "-tail-0042"
EMOJI = "shop-🛟🏳️‍🌈-שלום"
HOSTILE = (MARKUP, RIGHT_TO_LEFT, LONGEST, EMOJI)


def empty(version: int = 1, now: datetime | None = None, controllers: list[str] | None = None) -> Json:
    return {
        "version": version,
        "at": _text(now or datetime.now(UTC)),
        "whole": True,
        "operator": {
            "cluster": "production-eu",
            "identity": "plimsoll-7c9d8b6f5-x2x9q",
            "leader": True,
            "readOnly": False,
            "controllers": CONTROLLERS if controllers is None else controllers,
            "version": "0.1.0",
        },
        "nodes": {},
        "workloads": {},
        "groups": {},
        "pending": {},
        "allocations": {},
        "decisions": [],
    }


def snapshot(nodes: int = 42, pods_each: int = 14, seed: int = 7, now: datetime | None = None) -> Json:
    """A cluster in motion: some of everything that the page can show."""
    chance = random.Random(seed)
    now = now or datetime.now(UTC)
    made = empty(now=now)
    workloads = [f"{kind}/{namespace}/{name}" for kind, namespace, name in _workload_names(max(8, nodes // 3))]
    for index in range(nodes):
        name, record = node(chance, index, pods_each, workloads)
        made["nodes"][name] = record
    made["workloads"] = {key: workload(chance, key, now) for key in workloads}
    made["groups"] = {name: group(chance, name, cls, made["nodes"], now) for name, cls in GROUPS}
    made["pending"] = {f"shop/checkout-6f7d9-{index:05x}": _pending(chance, now, index) for index in range(4)}
    made["allocations"] = {name: _allocation(chance) for name in list(made["nodes"])[:9]}
    made["decisions"] = [decision(chance, workloads, now - timedelta(seconds=47 * back)) for back in range(80, 0, -1)]
    return made


def node(chance: random.Random, index: int, pods_each: int, workloads: list[str]) -> tuple[str, Json]:
    zone = ZONES[index % 3]
    group_name, capacity_class = GROUPS[(index // 3) % 3]
    name = f"{group_name.split('/')[1]}-{zone[-1]}-{index // 9:03d}"
    states = ["ready"] * 30 + ["not-ready", "cordoned", "draining", "leaving", "coming"]
    state = chance.choice(states) if index % 7 == 5 else "ready"
    amount = 0 if state == "coming" else max(1, round(chance.gauss(pods_each, pods_each / 4)))
    pods: list[list[str]] = [_pod(chance, workloads, capacity_class) for _ in range(amount)]
    room = chance.choice((8, 16, 32))
    share = chance.uniform(0.3, 0.98) if amount else 0.0
    return name, {
        "zone": "" if state == "coming" else zone,
        "group": group_name,
        "class": capacity_class,
        "state": state,
        "cpu": [round(room * 1000 * share), room * 1000],
        "memory": [round(room * 4 * GIB * share * 0.9), room * 4 * GIB],
        "pods": pods,
    }


def _pod(chance: random.Random, workloads: list[str], capacity_class: str) -> list[str]:
    key = chance.choice(workloads)
    state = chance.choices("rstf", (92, 4, 3, 1))[0]
    name = f"{key.rsplit('/', 1)[1]}-{chance.getrandbits(36):09x}"
    if chance.random() < 0.012:
        return [name, key, state, "spot" if capacity_class == "on-demand" else "on-demand"]
    return [name, key, state]


def workload(chance: random.Random, key: str, now: datetime) -> Json:
    replicas = chance.randint(2, 24)
    spot = replicas * 7 // 10
    away = chance.choice((0, 0, 0, 1, 2))
    blocked = away > 0 and chance.random() < 0.6
    blockers = [
        {
            "code": "WindowClosed",
            "words": "the disruption window of the namespace, 0 3 * * * for 1h (UTC), is closed",
            "until": _text(now + timedelta(hours=5, minutes=12)),
        }
    ]
    name = key.rsplit("/", 1)[1]
    order = [
        [f"{name}-{chance.getrandbits(36):09x}", ZONES[at % 3], f"general-{'abc'[at % 3]}-00{at % 4}", at * 10]
        for at in range(min(6, replicas))
    ]
    return {
        "target": {"spot": spot, "onDemand": replicas - spot},
        "current": {"spot": spot - min(away, spot), "onDemand": replicas - spot + min(away, spot)},
        "action": "migrate-to-spot" if away else "none",
        "why": f"{away} of {replicas} replicas belong on spot and run on on-demand" if away else "every replica is where it belongs",
        "blockers": blockers if blocked else [],
        "errors": ['spotalis.io/spot-percentage is "70": must end with %: write "70%"'] if name == "billing" else [],
        "deletionOrder": order,
        "replicas": replicas,
    }  # fmt: skip


def group(chance: random.Random, name: str, capacity_class: str, nodes: Json, now: datetime) -> Json:
    members = [one for one in nodes.values() if one["group"] == name]
    size = len(members)
    history = []
    each = 0.192 if capacity_class == "spot" else 0.768
    level = float(max(2, size - 4))
    minutes = 24 * 60
    for back in range(minutes, 0, -1):
        level = max(1.0, level + chance.gauss(0, 0.12) + (size - level) / (back + 40))
        wanted = round(level)
        at = int((now - timedelta(minutes=back)).timestamp())
        history.append(
            [
                at,
                wanted if back > 1 else size,
                max(0, wanted - (chance.random() < 0.05)),
                wanted + (chance.random() < 0.02),
                round(each * (wanted if back > 1 else size), 6),
            ]
        )
    return {
        "min": 2,
        "max": size + 8,
        "desired": size + 1,
        "current": size,
        "ready": sum(1 for one in members if one["state"] == "ready"),
        "class": capacity_class,
        "pricePerHour": round(each * size, 6),
        "offerings": ["c6i.2xlarge", "c6a.2xlarge", "m6i.2xlarge"] if capacity_class == "spot" else ["m6i.4xlarge"],
        "why": "1 node is added: 4 pods wait that would run on it",
        "blockers": [{"code": "StillNeeded", "words": f"{name.split('/')[1]}-a-001 stays: 3 of its pods would run nowhere else"}],
        "history": history,
    }  # fmt: skip


def _pending(chance: random.Random, now: datetime, index: int) -> Json:
    """The first has a node that comes, the second one that is not ordered yet; nobody helps the others."""
    coming = {"node": "general-a-9c1f0-7", "phase": "Provisioning", "orderedAt": _text(now - timedelta(seconds=40))}
    awaits = [
        {"group": "plimsoll/general", **coming},
        {"group": "plimsoll/general", "node": "", "phase": "", "orderedAt": None},
    ]
    refusals = [
        {"group": "plimsoll/general", "why": "it asks for 64 cores, and the largest node would have 16"},
        {"group": "plimsoll/burst-spot", "why": "it does not tolerate the taint class=spot:NoSchedule"},
    ]
    return {
        "since": _text(now - timedelta(seconds=chance.randint(20, 4000))),
        "why": "0/42 nodes are available: 28 Insufficient cpu, 14 node(s) had untolerated taint {class: spot}",
        "awaits": awaits[index] if index < len(awaits) else None,
        "tried": refusals if index >= len(awaits) else [],
    }


def _allocation(chance: random.Random) -> Json:
    drives: list[Json] = []
    for index in range(6):
        state = chance.choice(("committed", "committed", "committed", "proposed", "terminating", "free", "blocked"))
        holder = f"weka/drives-{chance.randint(0, 9)}" if state in {"committed", "proposed", "terminating"} else None
        drives.append({"device": f"S5GXNX0W{index:04d}", "container": holder, "state": state})
    ports = [{"from": 14000 + 100 * at, "to": 14059 + 100 * at, "container": f"weka/drives-{at}"} for at in range(2)]
    trouble = ["S5GXNX0W0003 is held by weka/drives-1 and by weka/drives-7"] if chance.random() < 0.15 else []
    return {
        "drives": drives,
        "ports": ports,
        "waiting": ["weka/compute-4"] if chance.random() < 0.3 else [],
        "problems": trouble,
    }


def decision(chance: random.Random, workloads: list[str], at: datetime) -> Json:
    key = chance.choice(workloads)
    kind, result, action, why = chance.choice((
        ("placement", "done", "Evict", "it belongs on spot, and a spot node has room for it"),
        ("deletion-cost", "done", "Patch", "zone eu-west-1b has one replica more than the others: it leaves first"),
        ("placement", "held up", "migrate-to-spot", "the disruption window of the namespace is closed until 03:00 UTC"),
        ("nodegroups", "done", "CreateMachine", "4 pods wait that would run on one node of this group"),
        ("placement", "refused: LastReady", "Evict", "it is the only ready pod of its owner"),
        ("nodegroups", "failed: 503 from the provider", "CreateMachine", "4 pods wait that would run on one node"),
    ))  # fmt: skip
    target = "NodeGroup/plimsoll/general" if kind == "nodegroups" else key
    return {"at": _text(at), "controller": kind, "object": target, "action": action, "why": why, "result": result}


def hostile() -> Json:
    """Every name that is shown, as bad as can be."""
    made = snapshot(nodes=6)
    for index, name in enumerate(HOSTILE):
        key = f"Deployment/{name}/{name}"
        made["nodes"][name] = {
            "zone": HOSTILE[(index + 1) % 4],
            "group": name,
            "class": "spot",
            "state": "ready",
            "cpu": [1000, 4000],
            "memory": [GIB, 4 * GIB],
            "pods": [[name, key, "r"], [name, key, "s", "on-demand"]],
        }
        made["workloads"][key] = {
            **next(iter(made["workloads"].values())),
            "why": name,
            "action": name,
            "errors": [name],
        }
        made["workloads"][key]["deletionOrder"] = [[name, name, name, 1]]
        made["groups"][name] = {**next(iter(made["groups"].values())), "why": name, "offerings": [name], "history": []}
        awaits = {"group": name, "node": name, "phase": name, "orderedAt": made["at"]}
        made["pending"][f"{name}/{name}"] = {
            "since": made["at"], "why": name, "awaits": awaits, "tried": [{"group": name, "why": name}],
        }  # fmt: skip
        made["allocations"][name] = {
            "drives": [{"device": name, "container": name, "state": "committed"}],
            "ports": [{"from": 1, "to": 9, "container": name}],
            "waiting": [name],
            "problems": [name],
        }
        made["decisions"].append(
            {"at": made["at"], "controller": name, "object": key, "action": name, "why": name, "result": name}
        )
    return made


def _workload_names(amount: int) -> list[tuple[str, str, str]]:
    names = (
        "web",
        "checkout",
        "billing",
        "search",
        "ledger",
        "catalogue",
        "mailer",
        "thumbnails",
        "sessions",
        "reports",
    )
    namespaces = ("shop", "platform", "media", "data")
    kinds = ("Deployment", "Deployment", "Deployment", "StatefulSet")
    return [
        (kinds[at % 4], namespaces[at % 4], names[at % 10] if at < 10 else f"{names[at % 10]}-{at // 10}")
        for at in range(amount)
    ]


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
