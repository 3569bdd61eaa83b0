"""Everything that can be set, as one typed tree.

The keys of the file, the environment variables, `plimsoll config show` and `docs/configuration.md` all follow from these
types; nothing is named twice. A key stands here only if something reads it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from plimsoll.config.nodegroups import NodeGroups
from plimsoll.config.providers import Providers
from plimsoll.config.section import NamespaceName, NonEmpty, ObjectName, Section, about, span

ControllerName: TypeAlias = Literal["placement", "deletion-cost", "nodegroups", "allocation"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
LogFormat: TypeAlias = Literal["console", "json"]


class LeaderElection(Section, frozen=True):
    """Of several replicas one acts. `leaseDuration` > `renewDeadline` > `retryPeriod`: a leader that cannot renew stops before
    another may start."""

    enabled: Annotated[
        bool,
        about("Hold an election. Switch it off only where exactly one process runs. In read-only mode none is held."),
    ] = True
    lease_name: Annotated[ObjectName, about("The Lease, in `operator.namespace`, that the leader holds.")] = (
        "plimsoll-leader"
    )
    lease_duration: Annotated[
        timedelta,
        span(
            "How long the others respect a lease that is no longer renewed. A Lease holds whole seconds.",
            at_least="1s",
            whole_seconds=True,
        ),
    ] = timedelta(seconds=15)
    renew_deadline: Annotated[
        timedelta, span("How long the leader goes on acting without having renewed its lease.", at_least="100ms")
    ] = timedelta(seconds=10)
    retry_period: Annotated[
        timedelta, span("The pause between two attempts to take or renew the lease.", at_least="50ms")
    ] = timedelta(seconds=2)


class DisruptionLimits(Section, frozen=True):
    """How many pods may be asked to leave within a rolling period, whatever budgets would allow. Pods that were lost without
    our doing count, too. A guard against bursts: at the defaults, budgets, cooldown and the start of replacements set the pace
    of a workload of a hundred replicas, and a node that is lost with all of its pods does not stop the others."""

    per_workload: Annotated[
        int, Meta(ge=0, description="Disruptions of one workload (the topmost controller of its pods); 0 allows none.")
    ] = 100
    per_cluster: Annotated[int, Meta(ge=0, description="Disruptions in the whole cluster; 0 allows none.")] = 1000
    period: Annotated[
        timedelta, span("The length of the rolling period that both limits count over.", at_least="1s")
    ] = timedelta(minutes=10)


class DisruptionWindow(Section, frozen=True):
    """When pods that run may be moved, for workloads and namespaces that have no window of their own. Without a schedule it is
    always."""

    schedule: Annotated[
        str,
        about('A cron expression of five fields, such as "0 2 * * *", that says when the window opens.'),
    ] = ""
    duration: Annotated[timedelta, span("How long it stays open.", at_least="0s")] = timedelta(0)
    timezone: Annotated[NonEmpty, about("The IANA name of the time zone that the schedule is followed in.")] = "UTC"


class Operator(Section, frozen=True):
    """The operator as a whole."""

    read_only_mode: Annotated[
        bool,
        about(
            "Decide, log and show, but write nothing: no change, no eviction, no lease, no event. `--dry-run` sets it."
        ),
    ] = False
    namespace: Annotated[
        NamespaceName,
        about(
            "Where the operator keeps what is its own, such as its Lease. Unless set: `POD_NAMESPACE`, then the namespace of "
            "the pod's service account, then the default."
        ),
    ] = "plimsoll-system"
    watch_namespaces: Annotated[
        tuple[NamespaceName, ...],
        about(
            "The namespaces whose objects are seen and managed; empty: all. Nodes and other cluster-wide kinds are always seen."
        ),
    ] = ()
    audit_log: Annotated[
        str,
        about("Where one JSON line a write goes: a file's path, `-` for standard output, or empty for nowhere."),
    ] = "-"
    leader_election: LeaderElection = LeaderElection()
    disruption_limits: DisruptionLimits = DisruptionLimits()
    disruption_window: DisruptionWindow = DisruptionWindow()


class DeletionCost(Section, frozen=True):
    """The controller that decides which replica leaves first."""

    adopt_existing: Annotated[
        bool,
        about("Take over values near 2147483647 that another controller left on pods, so that their holes close, too."),
    ] = False
    ceiling: Annotated[
        int,
        Meta(
            ge=1,
            le=2_147_483_647,
            description="The highest value that is written; the next pod of the zone gets one less. Lower it where Karpenter "
            "reads the annotation as a disruption cost.",
        ),
    ] = 2_147_483_647
    algorithms: Annotated[
        tuple[NonEmpty, ...],
        about("The algorithms (entry points of the group `plimsoll.deletion_cost`) that are active; empty: all."),
    ] = ()
    max_rewrites_per_minute: Annotated[
        int,
        Meta(
            ge=0,
            description="How many of the values that it wrote on one workload's pods the controller may write anew in a minute "
            "to close holes; 0 closes none. A pod's first value is not counted.",
        ),
    ] = 60


class WorkloadTiming(Section, frozen=True):
    """How fast one workload is disturbed."""

    cooldown_period: Annotated[
        timedelta,
        span("How long a workload is left in peace after one of its pods was asked to leave.", at_least="0s"),
    ] = timedelta(seconds=10)
    disruption_retry_interval: Annotated[
        timedelta,
        span(
            "How soon a move is considered again that something holds up for an unknown time, such as a budget or a lack of "
            "room. Most of the time a change in the cluster comes earlier.",
            at_least="1s",
        ),
    ] = timedelta(seconds=30)


class Controllers(Section, frozen=True):
    """Which controllers run, and how hard they work."""

    enabled: Annotated[
        tuple[ControllerName, ...],
        about(
            "The controllers that run; empty: all but `allocation` and `nodegroups`, which must be named: they need kinds of their "
            "own, and others may be at the same work. `--controllers` sets it."
        ),
    ] = ()
    reconcile_interval: Annotated[
        timedelta, span("Every key is looked at again at least this often, changed or not.", at_least="1s")
    ] = timedelta(minutes=5)
    max_concurrent_reconciles: Annotated[
        int, Meta(ge=1, description="How many keys of one controller are worked on at a time.")
    ] = 4
    deletion_cost: DeletionCost = DeletionCost()
    workload_timing: WorkloadTiming = WorkloadTiming()


class Placement(Section, frozen=True):
    """The controller that decides which replicas run on spot and which on-demand, and moves those that are wrong."""

    rounding: Annotated[
        Literal["down", "up"], about("How the spot share is rounded to whole replicas; `down` favours stability.")
    ] = "down"
    percent_sign: Annotated[
        Literal["required", "optional"],
        about(
            'Whether `spotalis.io/spot-percentage` must end with %; `optional` also reads "70", as some older files have it.'
        ),
    ] = "required"
    when_min_exceeds_replicas: Annotated[
        Literal["ignore", "on-demand"],
        about("What happens to a workload with fewer replicas than its minimum: left alone, or all of it on-demand."),
    ] = "ignore"
    spot_labels: Annotated[
        tuple[NonEmpty, ...],
        about(
            "The node labels, each as `label=value`, that tell a spot node; every other node is on-demand. Empty: those of the "
            "clouds and of Karpenter."
        ),
    ] = ()
    moving_percentage: Annotated[
        int,
        Meta(
            ge=0,
            le=100,
            description="How many percent of a workload's replicas may be missing for a move at a time, as far as budgets "
            "allow it; always at least one. Without a budget it is one.",
        ),
    ] = 0
    max_migrations: Annotated[
        int,
        Meta(ge=0, description="How many pods of one workload may be moved within `migrationPeriod`; 0 moves none."),
    ] = 200
    max_migrations_per_cluster: Annotated[
        int, Meta(ge=0, description="How many pods of the whole cluster may be moved within `migrationPeriod`.")
    ] = 1000
    migration_period: Annotated[timedelta, span("The rolling period that both limits count over.", at_least="1s")] = (
        timedelta(hours=1)
    )
    external_autoscaler: Annotated[
        bool,
        about(
            "Someone else makes nodes for pods that fit nowhere, so a pod is moved even if there is no room for its "
            "replacement yet."
        ),
    ] = False
    spot_fallback_after: Annotated[
        timedelta, span("A pod that waited so long for spot gets on-demand instead.", at_least="1s")
    ] = timedelta(minutes=2)
    namespace_selector: Annotated[
        tuple[NonEmpty, ...],
        about(
            "Labels, each as `label=value`, all of which a namespace must carry for its workloads to be managed, for those "
            "who opt in by namespace. Empty: every namespace but kube-system and the operator's own."
        ),
    ] = ()
    max_fallbacks_per_minute: Annotated[
        int, Meta(ge=1, description="How many waiting pods of one workload are replaced that way in a minute.")
    ] = 30


class Allocation(Section, frozen=True):
    """The controller that gives drives and ports to storage containers. It runs only where `controllers.enabled` names it."""

    namespace: Annotated[
        NamespaceName,
        about("Where the Lease `weka-allocator-{node}` of each node is kept; every allocator must use the same one."),
    ] = "weka-operator-system"
    reduced_ports: Annotated[
        bool,
        about(
            "New containers get 60 ports in a row instead of 100, for versions that need no more. How many one has is "
            "remembered in its status."
        ),
    ] = False
    shortage_wait: Annotated[
        timedelta,
        span(
            "How long a container waits that found too few drives, too little capacity or no ports, unless something on its "
            "node is freed earlier.",
            at_least="1s",
        ),
    ] = timedelta(seconds=30)


class Kubernetes(Section, frozen=True):
    """How the API server is talked to, and how old a view of the cluster may become."""

    qps: Annotated[
        int,
        Meta(
            ge=1,
            description="Requests a second, on average; watches and leases are not held back. The API server shares out its "
            "capacity itself; this only keeps a mistake of ours within bounds.",
        ),
    ] = 500
    burst: Annotated[int, Meta(ge=1, description="Requests that may be sent at once after a quiet spell.")] = 1000
    request_timeout: Annotated[timedelta, span("How long any call but a watch may take.", at_least="100ms")] = (
        timedelta(seconds=30)
    )
    watch_idle_timeout: Annotated[
        timedelta,
        span(
            "A watch that is silent for so long is taken for dead and opened anew. The API server sends a bookmark about "
            "every minute.",
            at_least="1s",
        ),
    ] = timedelta(seconds=150)
    max_view_age: Annotated[
        timedelta, span("A view of which nothing was heard for longer makes the process unready.", at_least="1s")
    ] = timedelta(minutes=5)
    exit_view_age: Annotated[
        timedelta,
        span("A view of which nothing was heard for longer ends the process, with exit code 5.", at_least="1s"),
    ] = timedelta(minutes=15)


class Web(Section, frozen=True):
    """Where `/healthz`, `/readyz` and `/metrics` are served."""

    host: Annotated[
        NonEmpty,
        about(
            "The address to listen on; `*` is every address of the machine, IPv4 and IPv6, as probes in a cluster need it "
            "(`plimsoll manifests` sets it)."
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="The port to listen on; 0 takes any that is free.")] = 8080


class Webhook(Section, frozen=True):
    """The admission webhook, which gives each new pod of a managed workload its class. It runs with the placement controller,
    and in read-only mode not at all."""

    mode: Annotated[
        Literal["service", "url", "off"],
        about(
            "How the API server reaches it. `service`: through a Service in the cluster; the MutatingWebhookConfiguration is "
            "installed beside it (`plimsoll manifests` does both, and sets this). `url`: at an address outside of the cluster; "
            "the operator registers itself while it runs. `off`: not at all; replicas are watched, and none is moved."
        ),
    ] = "off"
    host: Annotated[NonEmpty, about("The address to listen on; `*` is every address of the machine.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="The port to listen on; 0 takes any that is free.")] = 9443
    url: Annotated[
        str,
        about(
            "For `mode: url`: the https address, without a path, at which the API server reaches `host` and `port`. Unless "
            "set: the loopback address, where the API server is there, too."
        ),
    ] = ""
    timeout: Annotated[
        timedelta,
        span(
            "How long the creation of a replica waits for the answer; without one the pod starts on any class. The API server "
            "allows up to 30s.",
            at_least="1s",
            whole_seconds=True,
        ),
    ] = timedelta(seconds=2)
    certificate_file: Annotated[
        str,
        about(
            "A serving certificate that someone else, such as cert-manager, keeps up to date; with `keyFile`. Empty: the "
            "operator makes and renews its own."
        ),
    ] = ""
    key_file: Annotated[str, about("The key of `certificateFile`.")] = ""
    ca_file: Annotated[
        str,
        about(
            "Who signed `certificateFile`; written into the webhook's configuration. Empty: someone else does that, such as "
            "cert-manager's injector."
        ),
    ] = ""


class Dashboard(Section, frozen=True):
    """A page that shows what the operator sees, what it decided and why. It only shows: nothing can be changed there."""

    enabled: Annotated[bool, about("Serve it. While nobody looks it costs next to nothing.")] = True
    host: Annotated[
        NonEmpty,
        about(
            "The address to listen on. On loopback, which `kubectl port-forward` reaches in a pod, nobody is asked who he is; "
            "`*` is every address of the machine, and needs `access: token`."
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="The port to listen on; 0 takes any that is free.")] = 8090
    access: Annotated[
        Literal["loopback", "token"],
        about(
            "Who may look. `loopback`: whoever reaches it on this machine. `token`: whoever sends a bearer token that the "
            "cluster knows, and may `get` the non-resource URL `/plimsoll/dashboard`."
        ),
    ] = "loopback"


class Logging(Section, frozen=True):
    """Log records go to standard error."""

    level: Annotated[LogLevel, about("The least important records that are kept. `--log-level` sets it.")] = "info"
    format: Annotated[
        LogFormat, about("`console` for people, `json` for one JSON object a line. `--log-format` sets it.")
    ] = "console"


class Config(Section, frozen=True):
    """The whole tree."""

    operator: Operator = Operator()
    controllers: Controllers = Controllers()
    placement: Placement = Placement()
    allocation: Allocation = Allocation()
    nodegroups: NodeGroups = NodeGroups()
    providers: Providers = Providers()
    kubernetes: Kubernetes = Kubernetes()
    web: Web = Web()
    webhook: Webhook = Webhook()
    dashboard: Dashboard = Dashboard()
    logging: Logging = Logging()
