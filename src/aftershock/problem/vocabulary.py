"""The controlled vocabulary of mechanisms: how a thing breaks, in words that diagnoses can be compared by.

Words of the field, one for each way in which distributed systems fail that the public postmortems of
the project show. A mechanism says how it broke, not which component did or what set it off.
"""

from typing import Literal, get_args

__all__ = ["MECHANISMS", "Mechanism"]

Mechanism = Literal[
    "lock-contention",
    "deadlock",
    "race-condition",
    "lost-update",
    "duplicate-processing",
    "data-corruption",
    "data-loss",
    "stale-data",
    "connection-exhaustion",
    "memory-exhaustion",
    "cpu-starvation",
    "disk-full",
    "descriptor-exhaustion",
    "port-exhaustion",
    "thread-exhaustion",
    "quota-exceeded",
    "capacity-shortfall",
    "overload",
    "retry-storm",
    "thundering-herd",
    "queue-backlog",
    "poison-message",
    "cascading-failure",
    "cascading-deletion",
    "bad-release",
    "bad-configuration",
    "schema-change",
    "feature-flag",
    "dependency-failure",
    "third-party-failure",
    "dns-failure",
    "network-partition",
    "packet-loss",
    "network-latency",
    "routing-error",
    "load-balancing",
    "health-check-flap",
    "certificate-expiry",
    "credential-rotation",
    "access-control",
    "clock-skew",
    "failover-failure",
    "split-brain",
    "replication-lag",
    "node-failure",
    "control-plane-failure",
    "scheduling-failure",
    "autoscaling-failure",
    "query-regression",
]

MECHANISMS: tuple[str, ...] = get_args(Mechanism)
