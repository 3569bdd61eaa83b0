"""The command line: `python -m tools.controlplane --help`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from plimsoll.embedded_cluster.node_spec import NodeLineError, parse_node_line
from tools.controlplane import background
from tools.controlplane.api import Api
from tools.controlplane.binaries import ControlPlaneUnavailableError, find_binaries
from tools.controlplane.process import ComponentFailedError
from tools.controlplane.versions import PINNED_PATCHES, newest_kubernetes

_EXAMPLES = """\
examples:
  python -m tools.controlplane up --nodes "3 zone=a class=spot cpu=8 memory=32Gi" --nodes "2 zone=b class=on-demand"
  export KUBECONFIG=$(python -m tools.controlplane kubeconfig)
  python -m tools.controlplane down

  python -m tools.controlplane up --name old --kubernetes 1.34     another one beside it, of an older version
  python -m tools.controlplane status                              what runs, and what is built
  KUBERNETES=1.34.4 python -m tools.controlplane build             build ahead of time

a line of nodes is [COUNT] WORD=VALUE ...: zone= region= class=spot|on-demand cpu= memory= pods= storage= type= arch=
os= prefix= label:KEY=VALUE annotation:KEY=VALUE resource:NAME=QUANTITY taint:KEY[=VALUE]:EFFECT
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, 1 where something failed, or 2 for a faulty command line."""
    options = _parser().parse_args(arguments)
    try:
        return int(_COMMANDS[options.command](options))
    except NodeLineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (ControlPlaneUnavailableError, ComponentFailedError, background.NamedClusterError, TimeoutError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.controlplane",
        description="A real Kubernetes control plane with KWOK nodes on this machine.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    versions = f"{', '.join(PINNED_PATCHES)} or a release; default $KUBERNETES, then the newest, {newest_kubernetes()}"
    up = commands.add_parser("up", help="start a cluster in the background and print its kubeconfig's path")
    serve = commands.add_parser("serve", help="run a cluster in the foreground, until Ctrl-C")
    for command in (up, serve):
        command.add_argument("--nodes", action="append", default=[], metavar="LINE", help="KWOK nodes; may be repeated")
        command.add_argument("--kubernetes", metavar="VERSION", help=versions)
    down = commands.add_parser("down", help="stop a cluster")
    down.add_argument("--all", action="store_true", help="stop every named cluster")
    kubeconfig = commands.add_parser("kubeconfig", help="print the path of a running cluster's kubeconfig")
    for command in (up, serve, down, kubeconfig):
        command.add_argument("--name", default="default", help="which cluster (default: %(default)s)")
    commands.add_parser("status", help="show the clusters that run and where the programs come from")
    build = commands.add_parser("build", help="find or build the programs, and print their directory")
    build.add_argument("--kubernetes", metavar="VERSION", help=versions)
    build.add_argument(
        "--if-possible",
        action="store_true",
        help="where it cannot be built, say so and succeed; but fail where CI=true",
    )
    return parser


def _up(options: argparse.Namespace) -> int:
    for line in options.nodes:
        parse_node_line(line)
    # A build may take minutes: here its progress is seen, in the keeper's log it would not be.
    find_binaries(options.kubernetes)
    arguments = [word for line in options.nodes for word in ("--nodes", line)]
    if options.kubernetes:
        arguments += ["--kubernetes", options.kubernetes]
    state = background.up(options.name, arguments)
    print(f"{state.versions} at {state.server}", file=sys.stderr)
    print(state.kubeconfig)
    return 0


def _serve(options: argparse.Namespace) -> int:
    background.serve(options.name, kubernetes=options.kubernetes, nodes=options.nodes)
    return 0


def _down(options: argparse.Namespace) -> int:
    names = [state.name for state in background.running_clusters()] if options.all else [options.name]
    for name in names:
        background.down(name)
        print(f"stopped {name}", file=sys.stderr)
    return 0


def _kubeconfig(options: argparse.Namespace) -> int:
    print(background.find(options.name).kubeconfig)
    return 0


def _status(_: argparse.Namespace) -> int:
    clusters = background.running_clusters()
    for state in clusters:
        print(f"{state.name}: {state.versions} at {state.server}, {_count_nodes(state)} nodes")
        print(f"  kubeconfig {state.kubeconfig}")
        print(f"  logs       {state.logs}")
    if not clusters:
        print("no cluster is running")
    try:
        binaries = find_binaries(may_build=False)
    except ControlPlaneUnavailableError as error:
        print(f"programs: {error}")
    else:
        print(f"programs: {binaries.versions} from {binaries.origin}: {binaries.directory}")
    return 0


def _count_nodes(state: background.State) -> str:
    access = Path(state.kubeconfig).parent
    try:
        token = (access / "tokens.csv").read_text().split(",", 1)[0]
        api = Api(state.server, access / "certificates" / "apiserver.crt", token)
        try:
            return str(len(api.request("GET", "/api/v1/nodes", timeout=3.0)["items"]))
        finally:
            api.close()
    except OSError as error:
        return f"unknown ({error})"


def _build(options: argparse.Namespace) -> int:
    try:
        binaries = find_binaries(options.kubernetes)
    except ControlPlaneUnavailableError as error:
        if not options.if_possible or os.environ.get("CI") == "true":
            raise
        print(f"warning: {error}", file=sys.stderr)
        return 0
    print(f"{binaries.versions} from {binaries.origin}", file=sys.stderr)
    print(binaries.directory)
    return 0


_COMMANDS = {
    "up": _up,
    "serve": _serve,
    "down": _down,
    "kubeconfig": _kubeconfig,
    "status": _status,
    "build": _build,
}

if __name__ == "__main__":
    sys.exit(main())
