"""The configuration as one tree of types.

The keys of the file, the environment variables, `plimsoll config show` and `docs/configuration.md` are all derived from these
types. Every key has a reader.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from plimsoll.config.nodegroups import NodeGroups
from plimsoll.config.providers import Providers
from plimsoll.config.section import NamespaceName, NonEmpty, ObjectName, Section, describe, span

ControllerName: TypeAlias = Literal["placement", "deletion-cost", "nodegroups", "allocation"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
LogFormat: TypeAlias = Literal["console", "json"]


class LeaderElectionConfig(Section, frozen=True):
    """Of several replicas, only the leader acts. `leaseDuration` > `renewDeadline` > `retryPeriod`: a leader that cannot renew its
    lease stops before another may start."""

    enabled: Annotated[
        bool,
        describe(
            "Enable leader election. Disable it only if exactly one process runs. Read-only mode never takes the lease."
        ),
    ] = True
    lease_name: Annotated[ObjectName, describe("Name of the leader's Lease in `operator.namespace`.")] = (
        "plimsoll-leader"
    )
    lease_duration: Annotated[
        timedelta,
        span(
            "How long other replicas respect a lease that is no longer renewed, in whole seconds.",
            at_least="1s",
            whole_seconds=True,
        ),
    ] = timedelta(seconds=15)
    renew_deadline: Annotated[
        timedelta, span("How long the leader keeps acting without renewing its lease.", at_least="100ms")
    ] = timedelta(seconds=10)
    retry_period: Annotated[
        timedelta, span("Interval between attempts to acquire or renew the lease.", at_least="50ms")
    ] = timedelta(seconds=2)


class DisruptionLimitsConfig(Section, frozen=True):
    """How many pods may be disrupted within a rolling period, even if PodDisruptionBudgets would allow more. Pods lost for other
    reasons count, too. This protects against bursts: at the defaults, budgets, the cooldown and the start of replacements set the
    pace of a workload with a hundred replicas, and the loss of a node with all its pods does not stop the other workloads."""

    per_workload: Annotated[
        int, Meta(ge=0, description="Disruptions of one workload (the topmost controller of its pods); 0 allows none.")
    ] = 100
    per_cluster: Annotated[int, Meta(ge=0, description="Disruptions in the whole cluster; 0 allows none.")] = 1000
    period: Annotated[timedelta, span("Length of the rolling period for both limits.", at_least="1s")] = timedelta(
        minutes=10
    )


class DisruptionWindowConfig(Section, frozen=True):
    """When running pods may be moved, for workloads and namespaces without their own window. Without a schedule, the window is
    always open."""

    schedule: Annotated[
        str,
        describe('When the window opens: a cron expression with five fields, such as "0 2 * * *".'),
    ] = ""
    duration: Annotated[timedelta, span("How long the window stays open.", at_least="0s")] = timedelta(0)
    timezone: Annotated[NonEmpty, describe("IANA time zone of the schedule.")] = "UTC"


class OperatorConfig(Section, frozen=True):
    """The operator as a whole."""

    read_only_mode: Annotated[
        bool,
        describe("Decide and log, but write nothing: no change, no eviction, no lease, no event. Set by `--dry-run`."),
    ] = False
    namespace: Annotated[
        NamespaceName,
        describe(
            "Namespace of the operator's own objects, such as its Lease. If not set: `POD_NAMESPACE`, then the namespace of the "
            "pod's service account, then the default."
        ),
    ] = "plimsoll-system"
    watch_namespaces: Annotated[
        tuple[NamespaceName, ...],
        describe(
            "Namespaces to watch and manage; empty: all. Nodes and other cluster-scoped kinds are always watched."
        ),
    ] = ()
    audit_log: Annotated[
        str,
        describe(
            "Destination of the audit trail (one JSON line per write): a file, `-` for standard output, or empty for none."
        ),
    ] = "-"
    leader_election: LeaderElectionConfig = LeaderElectionConfig()
    disruption_limits: DisruptionLimitsConfig = DisruptionLimitsConfig()
    disruption_window: DisruptionWindowConfig = DisruptionWindowConfig()


class AuditConfig(Section, frozen=True):
    """What happens if the audit trail (`operator.auditLog`) cannot be written: a full disk, a pipe that nothing reads."""

    on_failure: Annotated[
        Literal["drop", "stop"],
        describe(
            "`drop`: drop records that cannot be written, and count them in `plimsoll_audit_records_total`. `stop`: do nothing in the "
            "cluster until records can be written again."
        ),
    ] = "drop"


class DeletionCost(Section, frozen=True):
    """The controller that decides which replica is deleted first on a scale-down."""

    adopt_existing: Annotated[
        bool,
        describe(
            "Take over values near 2147483647 that another controller left on pods, so that gaps between them close, too."
        ),
    ] = False
    ceiling: Annotated[
        int,
        Meta(
            ge=1,
            le=2_147_483_647,
            description="Highest value to write; the next pod of the zone gets one less. Lower it if Karpenter uses the annotation "
            "as a disruption cost.",
        ),
    ] = 2_147_483_647
    algorithms: Annotated[
        tuple[NonEmpty, ...],
        describe("Active algorithms (entry points of the group `plimsoll.deletion_cost`); empty: all."),
    ] = ()
    max_rewrites_per_minute: Annotated[
        int,
        Meta(
            ge=0,
            description="How many of its own values the controller may rewrite per workload and minute to close gaps; 0: none. A "
            "pod's first value does not count.",
        ),
    ] = 60
    order_placed_workloads: Annotated[
        bool,
        describe(
            "Order the replicas of every Deployment that the placement controller manages, so that scale-downs keep `min-on-demand`. "
            'A Deployment opts out by the annotation `pod-deletion-cost.lablabs.io/enabled: "false"`.'
        ),
    ] = True


class WorkloadTiming(Section, frozen=True):
    """How often one workload is disrupted."""

    cooldown_period: Annotated[
        timedelta,
        span("Minimum time between two evictions of the same workload.", at_least="0s"),
    ] = timedelta(seconds=10)
    disruption_retry_interval: Annotated[
        timedelta,
        span(
            "Retry interval of a move that is blocked for an unknown time, for example by a budget or by missing capacity. Usually a "
            "change in the cluster triggers it earlier.",
            at_least="1s",
        ),
    ] = timedelta(seconds=30)


class Controllers(Section, frozen=True):
    """Which controllers run, and their concurrency."""

    enabled: Annotated[
        tuple[ControllerName, ...],
        describe(
            "Controllers to run; empty: all except `allocation` and `nodegroups`, which must be named because they need their own "
            "CRDs and must not run beside another allocator or autoscaler. Set by `--controllers`."
        ),
    ] = ()
    reconcile_interval: Annotated[
        timedelta, span("Every object is reconciled at least this often, even without a change.", at_least="1s")
    ] = timedelta(minutes=5)
    max_concurrent_reconciles: Annotated[
        int, Meta(ge=1, description="How many objects of one controller are reconciled concurrently.")
    ] = 4
    deletion_cost: DeletionCost = DeletionCost()
    workload_timing: WorkloadTiming = WorkloadTiming()


class Placement(Section, frozen=True):
    """The controller that decides which replicas run on spot and which on-demand nodes, and moves misplaced ones."""

    rounding: Annotated[
        Literal["down", "up"], describe("How the spot share is rounded to whole replicas; `down` prefers on-demand.")
    ] = "down"
    percent_sign: Annotated[
        Literal["required", "optional"],
        describe(
            'Whether `spotalis.io/spot-percentage` must end with %; `optional` also accepts "70", as in some older files.'
        ),
    ] = "required"
    when_min_exceeds_replicas: Annotated[
        Literal["ignore", "on-demand"],
        describe(
            "What to do with a workload that has fewer replicas than its minimum: do not manage it, or run it on-demand."
        ),
    ] = "ignore"
    spot_labels: Annotated[
        tuple[NonEmpty, ...],
        describe(
            "Node labels, each as `label=value`, that identify spot nodes; all other nodes are on-demand. Empty: the labels of the "
            "cloud providers and of Karpenter."
        ),
    ] = ()
    moving_percentage: Annotated[
        int,
        Meta(
            ge=0,
            le=100,
            description="Percentage of a workload's replicas that may be moved at a time, within its budgets; always at least one "
            "replica. Without a budget it is one.",
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
        describe(
            "An external autoscaler adds nodes for pods that do not fit. If no node has capacity for a replacement, one replica at a "
            "time tries whether a node comes; none does for hours after a workload found no spot node."
        ),
    ] = False
    spot_fallback_after: Annotated[
        timedelta, span("A pod that is pending for spot this long gets on-demand instead.", at_least="1s")
    ] = timedelta(minutes=2)
    namespace_selector: Annotated[
        tuple[NonEmpty, ...],
        describe(
            "Labels, each as `label=value`, that a namespace must have for its workloads to be managed. Empty: all namespaces "
            "except kube-system and the operator's own."
        ),
    ] = ()
    max_fallbacks_per_minute: Annotated[
        int, Meta(ge=1, description="How many pending pods of one workload are replaced that way per minute.")
    ] = 30


class Allocation(Section, frozen=True):
    """The controller that allocates drives and ports to storage containers. It runs only if `controllers.enabled` names it."""

    namespace: Annotated[
        NamespaceName,
        describe("Namespace of the Leases `weka-allocator-{node}`; every allocator must use the same one."),
    ] = "weka-operator-system"
    reduced_ports: Annotated[
        bool,
        describe(
            "Allocate 60 consecutive ports instead of 100 to new containers, for versions that need no more. A container's status "
            "records how many it has."
        ),
    ] = False
    shortage_wait: Annotated[
        timedelta,
        span(
            "Retry interval of a container for which its node has too few drives, too little capacity or no ports, unless something "
            "on the node is freed earlier.",
            at_least="1s",
        ),
    ] = timedelta(seconds=30)


class Kubernetes(Section, frozen=True):
    """Access to the API server, and how old the cached view of the cluster may become."""

    qps: Annotated[
        int,
        Meta(
            ge=1,
            description="Average requests per second; watches and leases are exempt. The API server has its own flow control; this "
            "only limits the damage of a bug.",
        ),
    ] = 500
    burst: Annotated[int, Meta(ge=1, description="Requests that may be sent at once after a quiet period.")] = 1000
    request_timeout: Annotated[timedelta, span("Time limit of a request, except watches.", at_least="100ms")] = (
        timedelta(seconds=30)
    )
    watch_idle_timeout: Annotated[
        timedelta,
        span(
            "A watch without data for this long is considered dead and reopened. The API server sends a bookmark about every "
            "minute.",
            at_least="1s",
        ),
    ] = timedelta(seconds=150)
    max_view_age: Annotated[
        timedelta, span("A view without data for longer than this makes the process unready.", at_least="1s")
    ] = timedelta(minutes=5)
    exit_view_age: Annotated[
        timedelta,
        span("A view without data for longer than this ends the process with exit code 5.", at_least="1s"),
    ] = timedelta(minutes=15)


class Web(Section, frozen=True):
    """The server of `/healthz`, `/readyz` and `/metrics`."""

    host: Annotated[
        NonEmpty,
        describe(
            "Address to listen on; `*` means all addresses, IPv4 and IPv6, which probes in a cluster need (`plimsoll manifests` sets "
            "it)."
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="The port to listen on; 0 takes any that is free.")] = 8080


class Webhook(Section, frozen=True):
    """The admission webhook, which gives each new pod of a managed workload its class. It runs with the placement controller,
    and in read-only mode not at all."""

    mode: Annotated[
        Literal["service", "url", "off"],
        describe(
            "How the API server reaches the webhook. `service`: through a Service in the cluster; `plimsoll manifests` prints the "
            "Service and the MutatingWebhookConfiguration and sets this. `url`: at an address outside the cluster; the operator "
            "registers itself while it runs. `off`: no webhook; replicas are watched, and none is moved."
        ),
    ] = "off"
    host: Annotated[NonEmpty, describe("The address to listen on; `*` is every address of the machine.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="The port to listen on; 0 takes any that is free.")] = 9443
    url: Annotated[
        str,
        describe(
            "For `mode: url`: the https address, without a path, at which the API server reaches `host` and `port`. If not set: "
            "the loopback address, if the API server runs on this machine."
        ),
    ] = ""
    timeout: Annotated[
        timedelta,
        span(
            "How long the API server waits for the response when it creates a pod; without one the pod starts without a class. At "
            "most 30s.",
            at_least="1s",
            whole_seconds=True,
        ),
    ] = timedelta(seconds=2)
    certificate_file: Annotated[
        str,
        describe(
            "A serving certificate that another tool, such as cert-manager, keeps up to date; with `keyFile`. Empty: the operator "
            "creates and renews its own."
        ),
    ] = ""
    key_file: Annotated[str, describe("The key of `certificateFile`.")] = ""
    ca_file: Annotated[
        str,
        describe(
            "The CA of `certificateFile`, written into the webhook configuration. Empty: another tool writes it, such as "
            "cert-manager's injector."
        ),
    ] = ""


class Dashboard(Section, frozen=True):
    """A read-only page that shows what the operator sees, what it decided and why."""

    enabled: Annotated[bool, describe("Serve the dashboard. It costs almost nothing while no one has it open.")] = True
    host: Annotated[
        NonEmpty,
        describe(
            "Address to listen on. On loopback, which `kubectl port-forward` reaches, users are not authenticated; `*` means all "
            "addresses and requires `access: token`."
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="The port to listen on; 0 takes any that is free.")] = 8090
    access: Annotated[
        Literal["loopback", "token"],
        describe(
            "Who has access. `loopback`: everyone who reaches it on this machine. `token`: users with a bearer token of the cluster "
            "and the permission to `get` the non-resource URL `/plimsoll/dashboard`."
        ),
    ] = "loopback"


class Logging(Section, frozen=True):
    """Log records go to standard error."""

    level: Annotated[LogLevel, describe("Minimum level of records. Set by `--log-level`.")] = "info"
    format: Annotated[
        LogFormat, describe("`console` for text, `json` for one JSON object per line. Set by `--log-format`.")
    ] = "console"


class Config(Section, frozen=True):
    """The whole tree."""

    operator: OperatorConfig = OperatorConfig()
    audit: AuditConfig = AuditConfig()
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
