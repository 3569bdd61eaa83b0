"""`make demo-real`: nine replicas in three zones lose one by accident, and still shrink evenly.

The same story is played twice: once with Kubernetes alone and once with Plimsoll. It ends by itself, with what was seen, and
with an exit code that says whether the promise was kept.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tools.controlplane.cluster import ControlPlane

ZONES = ("a", "b", "c")
COST = "controller.kubernetes.io/pod-deletion-cost"
ENABLED = "pod-deletion-cost.lablabs.io/enabled"
PATIENCE_SECONDS = 120.0

console = Console()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave the cluster running until Ctrl-C, to look around with kubectl"
    )
    arguments = parser.parse_args()
    console.print(
        "[bold]Starting a control plane[/]: etcd, kube-apiserver, controllers, scheduler, three zones of KWOK nodes …"
    )
    with ControlPlane.start(nodes=[f"2 zone={zone} prefix=zone-{zone}" for zone in ZONES]) as cluster:
        console.print(f"  kubeconfig: {cluster.kubeconfig}\n")
        balanced = _compare(cluster)
        if arguments.keep:
            console.print(
                f"\nLook around: [bold]kubectl --kubeconfig {cluster.kubeconfig} get pods -A[/]. Ctrl-C ends it."
            )
            _until_interrupted()
    return 0 if balanced else 1


def _compare(cluster: ControlPlane) -> bool:
    stories = {}
    with _operator(cluster):
        for name, annotations in (("kubernetes alone", {}), ("with plimsoll", {ENABLED: "true"})):
            console.rule(name)
            stories[name] = _story(cluster, name.replace(" ", "-"), annotations)
    table = Table(title="\nReplicas in zones a / b / c")
    for heading in ("", "9, after a loss", "scaled to 6", "scaled to 3"):
        table.add_column(heading)
    for name, stops in stories.items():
        table.add_row(name, *(_zones(stop) for stop in stops))
    console.print(table)
    balanced = all(max(stop) - min(stop) <= 1 for stop in stories["with plimsoll"][1:])
    verdict = "[green]even at every stop[/]" if balanced else "[red]NOT even: this is a bug[/]"
    console.print(f"With Plimsoll the zones are {verdict}.")
    return balanced


def _story(cluster: ControlPlane, namespace: str, annotations: dict[str, str]) -> list[list[int]]:
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    cluster.request("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", _deployment(annotations))
    managed = bool(annotations)
    _await(lambda: _settled(cluster, namespace, 9, managed=managed), "nine ready replicas")
    _show(cluster, namespace, "nine replicas, three in each zone")

    # A replica of zone c is lost while zone c takes no pods: its replacement lands elsewhere.
    _cordon(cluster, "c", unschedulable=True)
    victim = next(pod for pod in _pods(cluster, namespace) if _zone(pod) == "c")
    cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{victim['metadata']['name']}")
    name = victim["metadata"]["name"]
    _await(
        lambda: (
            _settled(cluster, namespace, 9, managed=managed)
            and all(pod["metadata"]["name"] != name for pod in _pods(cluster, namespace))
        ),
        "a replacement elsewhere",
    )
    _cordon(cluster, "c", unschedulable=False)
    stops = [_show(cluster, namespace, "one replica of zone c was lost and came back elsewhere")]
    for replicas in (6, 3):
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web/scale"
        cluster.request("PATCH", path, {"spec": {"replicas": replicas}}, content_type="application/merge-patch+json")
        _await(lambda n=replicas: _settled(cluster, namespace, n, managed=managed), f"{replicas} replicas")  # type: ignore[misc]
        stops.append(_show(cluster, namespace, f"scaled to {replicas}"))
    return stops


def _deployment(annotations: dict[str, str]) -> dict[str, Any]:
    labels = {"app": "web"}
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }
    container = {"name": "main", "image": "registry.example/web:1", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "metadata": {"name": "web", "annotations": annotations},
        "spec": {
            "replicas": 9,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "topologySpreadConstraints": [spread]},
            },
        },
    }


def _pods(cluster: ControlPlane, namespace: str) -> list[dict[str, Any]]:
    pods: list[dict[str, Any]] = cluster.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def _settled(cluster: ControlPlane, namespace: str, replicas: int, *, managed: bool) -> bool:
    """So many ready replicas; and where Plimsoll manages them, each has its place in the order."""
    pods = _pods(cluster, namespace)
    ready = [
        pod
        for pod in pods
        if any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
    ]
    if not len(pods) == len(ready) == replicas:
        return False
    if not managed:
        return True
    places = [(_zone(pod), pod["metadata"].get("annotations", {}).get(COST)) for pod in pods]
    if any(cost is None for _, cost in places):
        return False
    # Evened out: every zone's k-th pod from the top is worth more than any zone's (k+1)-th, so the fullest gives first.
    columns = [sorted((int(cost) for of, cost in places if of == zone and cost), reverse=True) for zone in ZONES]
    levels = [[column[k] for column in columns if len(column) > k] for k in range(max(map(len, columns)))]
    return all(min(upper) > max(lower) for upper, lower in itertools.pairwise(levels))


def _zone(pod: dict[str, Any]) -> str:
    return str(pod["spec"].get("nodeName", "zone-?-"))[len("zone-")]


def _show(cluster: ControlPlane, namespace: str, what: str) -> list[int]:
    counts = Counter(_zone(pod) for pod in _pods(cluster, namespace))
    stop = [counts[zone] for zone in ZONES]
    console.print(f"  {what:<60} {_zones(stop)}")
    return stop


def _zones(counts: list[int]) -> str:
    colour = "green" if max(counts) - min(counts) <= 1 else "yellow"
    return f"[{colour}]{' / '.join(str(count) for count in counts)}[/]"


def _cordon(cluster: ControlPlane, zone: str, *, unschedulable: bool) -> None:
    for node in cluster.request("GET", f"/api/v1/nodes?labelSelector=topology.kubernetes.io/zone={zone}")["items"]:
        path = f"/api/v1/nodes/{node['metadata']['name']}"
        cluster.request(
            "PATCH", path, {"spec": {"unschedulable": unschedulable}}, content_type="application/merge-patch+json"
        )


@contextmanager
def _operator(cluster: ControlPlane) -> Iterator[None]:
    command = [str(Path(sys.executable).parent / "plimsoll"), "run", "--kubeconfig", str(cluster.kubeconfig)]
    log = cluster.logs / "plimsoll.log"
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": "plimsoll-system"}})
    with log.open("wb") as sink, subprocess.Popen(command, stdout=sink, stderr=sink) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=15)


def _await(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    with console.status(f"waiting for {what} …"):
        while not condition():
            if time.monotonic() > deadline:
                raise SystemExit(f"demo: {what} did not come within {PATIENCE_SECONDS:.0f} s")
            time.sleep(0.1)


def _until_interrupted() -> None:
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    sys.exit(main())
