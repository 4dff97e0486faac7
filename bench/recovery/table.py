"""The faults, by their ids in the JSON."""

from functools import partial

from bench.recovery import acts_brokers as brokers
from bench.recovery import acts_lone as lone
from bench.recovery import acts_mirror as mirror
from bench.recovery import acts_topics as topics
from bench.recovery.fault import NOISE_S, Bound, Fault
from bench.recovery.stage import StageKind

PROXIED = StageKind(proxied=True)
WIDE = StageKind(source_brokers=3)
"""Needs of a fault in which leaders of the source move, or its brokers stop one by one."""
WIDE_PROXIED = StageKind(source_brokers=3, proxied=True)
LEAST_MEMORY = {"raymirror.copier.memory.bytes": str(8 * 1024 * 1024)}
"""The least memory that may be set: waiting lanes soon hold all of it, and healthy lanes notice."""

LoneFault = partial(Fault, healthy_s=lone.HEALTHY_S, properties=LEAST_MEMORY)
"""A fault that hits some lanes and must leave the others alone."""

# Faults that need the same clusters follow each other, because a start of up to six brokers takes long.
FAULTS: dict[str, Fault] = {
    fault.id: fault
    for fault in (
        Fault(id="copier_kill", act=mirror.kill_copier, bound=Bound.PAUSE, bound_s=5.0),
        Fault(
            id="copier_freeze", act=mirror.freeze_copier, bound=Bound.PAUSE, bound_s=mirror.LEASE_S + 5.0, copies_s=8.0
        ),
        Fault(id="supervisor_kill", act=mirror.kill_supervisor, bound=Bound.PAUSE, bound_s=5.0),
        Fault(id="both_kill", act=mirror.kill_both, bound=Bound.PAUSE, bound_s=5.0),
        Fault(
            id="add_partitions",
            act=topics.add_partitions,
            bound=Bound.PAUSE,
            bound_s=5.0,
            more_partitions=topics.ADDED,
            mend=topics.count_added,
        ),
        Fault(
            id="topic_delete",
            act=topics.delete_topic,
            more_topics=(topics.DOOMED,),
            prepare=topics.prepare_doomed,
            check=topics.check_deleted,
        ),
        Fault(id="target_one", act=brokers.kill_one_target, copies_s=14.0),
        Fault(id="target_all", act=brokers.kill_all_target, copies_s=8.0),
        Fault(id="source_kill", act=brokers.kill_source, copies_s=4.0),
        Fault(id="broker_freeze", act=brokers.freeze_broker, copies_s=10.0),
        Fault(
            id="unclean_election",
            act=topics.elect_unclean,
            properties={"replication.factor": "2"},
            target_loses=True,
            copies_s=40.0,
        ),
        Fault(
            id="driver_kill",
            act=mirror.kill_driver,
            mend=mirror.follow_again,
            bound=Bound.NONE,
            bound_s=NOISE_S,
            ray=mirror.three_nodes,
        ),
        Fault(
            id="gcs_restart",
            act=mirror.restart_gcs,
            bound=Bound.NONE,
            bound_s=NOISE_S,
            ray=mirror.three_nodes,
            copies_s=6.0,
        ),
        Fault(
            id="node_kill",
            act=mirror.kill_node,
            mend=mirror.replace_node,
            bound=Bound.PAUSE,
            bound_s=10.0,
            ray=mirror.three_nodes,
        ),
        LoneFault(
            id="positions_leaderless",
            act=lone.leave_positions_without_leader,
            check=lone.lead_as_before,
            mend=lone.lead_as_before,
            copies_s=40.0,
        ),
        Fault(id="rolling", act=brokers.roll, stage=WIDE, copies_s=40.0),
        Fault(id="move_leaders", act=topics.move_leaders, stage=WIDE, copies_s=20.0),
        Fault(id="net_cut_target", act=brokers.cut_target, stage=PROXIED),
        Fault(id="net_cut_source", act=brokers.cut_source, stage=PROXIED),
        Fault(id="net_stall_target", act=brokers.stall_target, stage=PROXIED),
        Fault(id="net_stall_source", act=brokers.stall_source, stage=PROXIED),
        LoneFault(id="lone_target", act=lone.unreachable_target, stage=PROXIED, copies_s=30.0),
        LoneFault(id="lone_source", act=lone.unreachable_source, stage=WIDE_PROXIED, copies_s=30.0),
    )
}
