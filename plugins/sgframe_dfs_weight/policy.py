"""The policy ``dfs-weight``: those who share a cached prefix run together. Knows requests and a cache view only."""

from __future__ import annotations

from collections.abc import Sequence

from sgframe.interfaces.cache import CacheView
from sgframe.interfaces.policy import Policy, Waiting
from sgframe.matches import Matches
from sgframe_dfs_weight import DfsWeightSettings
from sgframe_dfs_weight.trie import PrefixTrie


class HeaviestBranchFirst(Policy):
    """Depth first over the tree of cached prefixes that the waiting requests match, with ageing.

    At each branching those go first whose branch has the most waiting requests, ties by their earliest arrival; a request
    whose cached prefix ends at a branching goes after all who share more. Depth-first order is best for a cache that fits
    one path (Zheng et al. 2023, theorem 3.1).

    Bound: once later arrivals were given ``max_overtaken`` tokens while a request waited, it stands before all of them;
    only earlier ones that are overdue as well go before it. Tokens turn into time at the server's own rate: at 4,000
    tokens computed or generated a second, 16,384 tokens are 4 seconds.
    """

    def __init__(self, settings: DfsWeightSettings) -> None:
        self._max_overtaken = settings.max_overtaken
        self._matches = Matches()
        self._trie = PrefixTrie()

    def order(self, waiting: Sequence[Waiting], cache: CacheView) -> Sequence[Waiting]:
        overdue = [request for request in waiting if request.overtaken >= self._max_overtaken]
        patient = [request for request in waiting if request.overtaken < self._max_overtaken]
        self._trie.hold(patient, self._matches.lengths(patient, cache))
        by_id = {request.id: request for request in patient}
        return overdue + [by_id[id] for id in self._trie.walk()]
