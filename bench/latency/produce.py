"""The producer: a process with librdkafka's producer, which sends each record as soon as it is due, or lingers.

`python -m bench.latency.produce PLAN` prints `{"began": ...}` (monotonic seconds) before the first record, and at the
end `{"sent": ..., "failed": ..., "late_ms": ...}`.
"""

import json
import sys
import time
from typing import Any

import msgspec
import numpy as np

from bench.latency.stamped import Plan, encode

_LEAST_SLEEP_S = 0.0002
"""Records that become due within this time are sent together; a shorter sleep costs more than it is exact."""
_FLUSH_S = 30.0


def settings(plan: Plan) -> dict[str, Any]:
    """Return librdkafka's settings of the producer."""
    return {"bootstrap.servers": plan.bootstrap, "linger.ms": plan.linger_ms, "socket.nagle.disable": True}


def produce(plan: Plan, producer: Any) -> dict[str, Any]:
    """Send every record at its time; return how many, how many failed, and how late they were sent (99 %, in ms)."""
    failed: list[str] = []
    late_s = np.zeros(plan.records)

    def on_delivery(error: object, _message: object) -> None:
        if error is not None:
            failed.append(str(error))

    began_s = time.monotonic()
    print(json.dumps({"began": began_s}), flush=True)
    number = 0
    while number < plan.records:
        now_s = time.monotonic()
        due = min(plan.records, int((now_s - began_s) * plan.per_s) + 1)
        while number < due:
            at_ns = time.monotonic_ns()
            late_s[number] = at_ns / 1e9 - began_s - number / plan.per_s
            producer.produce(
                plan.topic, encode(number, at_ns), partition=number % plan.partitions, on_delivery=on_delivery
            )
            number += 1
        producer.poll(0)
        time.sleep(max(_LEAST_SLEEP_S, began_s + number / plan.per_s - time.monotonic()))
    left = producer.flush(_FLUSH_S)
    measured = late_s[plan.unmeasured :]
    return {
        "sent": number,
        "failed": len(failed) + left,
        "why": failed[0] if failed else "",
        "late_ms": round(float(np.quantile(measured, 0.99)) * 1000, 2),
    }


def main() -> None:
    """Run one plan."""
    from confluent_kafka import Producer

    plan = msgspec.json.decode(sys.argv[1], type=Plan)
    producer = Producer(
        {"bootstrap.servers": plan.bootstrap, "linger.ms": plan.linger_ms, "socket.nagle.disable": True}
    )
    producer.list_topics(plan.topic, timeout=_FLUSH_S)  # connected before the first record is due
    print(json.dumps(produce(plan, producer)), flush=True)


if __name__ == "__main__":
    main()
