"""Remembers which copies rounds of discovery have asked for, until the brokers of the target list them."""

from collections import Counter
from collections.abc import Iterable

_UNLISTED_ROUNDS = 3
"""Rounds in a row in which a copy exists and is not listed: brokers learn of a new topic within one or two."""
_MOST_RESTS = 7
"""Most rounds without a request for a copy that is refused: a controller logs each, and the source describes each."""


class AskedCopies:
    """Copies by source topic: created, asked for without an answer, or there by the controller's word only."""

    def __init__(self) -> None:
        self._made: dict[str, int] = {}
        """Partitions of copies that this process created."""
        self._unanswered: set[str] = set()
        """A cluster may create a copy after the time-out of the request."""
        self._unlisted: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()
        self._rests: dict[str, int] = {}
        """Rounds in which a refused copy is not asked for."""

    def due(self, topics: Iterable[str]) -> list[str]:
        """Return the topics whose copies are to be asked for in this round; to be called once a round."""
        due = [topic for topic in topics if not self._rests.get(topic)]
        self._rests = {topic: rounds - 1 for topic, rounds in self._rests.items() if rounds > 1}
        return due

    def refused(self, topic: str) -> None:
        """Note that a copy was refused: it is asked for in the next round, and then more and more rarely."""
        self._rests[topic] = min(2 ** self._refusals[topic] - 1, _MOST_RESTS)
        self._refusals[topic] = min(self._refusals[topic] + 1, _MOST_RESTS)

    def _not_refused(self, topic: str) -> None:
        self._refusals.pop(topic, None)
        self._rests.pop(topic, None)

    def made(self, topic: str, partitions: int) -> None:
        """Note that a request created a copy."""
        self._made[topic] = partitions
        self._not_refused(topic)
        self._unanswered.discard(topic)
        self._unlisted.pop(topic, None)

    def unanswered(self, topics: Iterable[str]) -> None:
        """Note that nobody knows whether a request created these copies."""
        self._unanswered.update(topics)

    def exists(self, topic: str) -> bool:
        """Note that a copy is there already; return whether the brokers should list it by now, and do not."""
        self._not_refused(topic)
        self._unlisted[topic] += 1
        return topic not in self._made and self._unlisted[topic] >= _UNLISTED_ROUNDS

    def partitions(self, topic: str) -> int:
        """Return how many partitions of a copy may be used although the brokers do not list it yet."""
        return self._made.get(topic, 0)

    def listed(self, topic: str) -> bool:
        """Forget a copy that brokers list; return whether a request created it that got no answer."""
        self._made.pop(topic, None)
        self._not_refused(topic)
        self._unlisted.pop(topic, None)
        was_unanswered = topic in self._unanswered
        self._unanswered.discard(topic)
        return was_unanswered
