"""Finds a place in a Ray cluster for each rank, and has the processes started there. Owns the connection to the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
import pydantic.v1  # noqa: F401 (Ray imports parts of it later, which fails while another thread imports the whole)
import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from sgframe.errors import ConfigError
from sgframe.front.threads import in_thread
from sgframe.interfaces.launcher import Crew, Launcher, Watcher
from sgframe.interfaces.speculator import Speculator
from sgframe.letter import Letter
from sgframe_ray import RaySettings
from sgframe_ray.crew import RayCrew
from sgframe_ray.post import Post


class RayLauncher(Launcher):
    """A placement group for each replica, a bundle for each rank, an actor in each bundle; the scheduler is in rank 0's.

    Raises ConfigError when there is no cluster, or no room in it.
    """

    elsewhere: ClassVar[bool] = True

    def __init__(self, settings: RaySettings) -> None:
        self._settings = settings
        self._joined = False
        self._joining = asyncio.Lock()

    async def launch(self, letters: Sequence[Letter], watcher: Watcher) -> Crew:
        async with self._joining:
            await in_thread(self._join)
        ranks = len(letters) - 1
        bundle = {"CPU": self._settings.cpus, "GPU": self._settings.gpus, **self._settings.resources}
        group = placement_group([{name: n for name, n in bundle.items() if n}] * ranks, self._settings.placement)
        posts: list[Any] = []
        try:
            await self._wait_for_room(group, bundle, ranks)
            posts = [self._post(group, place) for place in range(ranks)]
            manned = await _man(posts, letters)
        except BaseException as error:
            for post in posts:
                ray.kill(post)
            remove_placement_group(group)
            raise _ours(error) from None
        return RayCrew(posts, [[letter.name for letter in each] for each in manned], group, watcher)

    async def close(self) -> None:
        if self._joined:
            self._joined = False
            await in_thread(ray.shutdown)

    def _join(self) -> None:
        if ray.is_initialized():
            return
        try:
            ray.init(address=self._settings.address, configure_logging=False, log_to_driver=False)
        except ConnectionError as error:
            raise ConfigError(
                f"launcher 'ray' finds no cluster at '{self._settings.address}' ({error}): start one by ray start --head, "
                "or set plugin.ray.address"
            ) from None
        self._joined = True

    async def _wait_for_room(self, group: Any, bundle: dict[str, float], ranks: int) -> None:
        try:
            await asyncio.wait_for(group.ready(), self._settings.patience)
        except TimeoutError:
            raise ConfigError(
                f"the Ray cluster has had no room for a replica for {self._settings.patience:g} s: it needs {ranks} times "
                f"{bundle}, placed {self._settings.placement}, and of {ray.cluster_resources()} there are "
                f"{ray.available_resources()} left; lower tp_size or replicas, or add machines"
            ) from None

    def _post(self, group: Any, place: int) -> Any:
        settings = self._settings
        actor = ray.remote(Post).options(
            num_cpus=settings.cpus,
            num_gpus=settings.gpus,
            resources=settings.resources,
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=place),
        )
        return actor.remote()


async def _man(posts: Sequence[Any], letters: Sequence[Letter]) -> list[list[Letter]]:
    """Start the scheduler and rank 0 at the first post, each further rank at one of its own."""
    if len(posts) > 1:
        address = await posts[0].address.remote()
        letters = [letter.joining(address) for letter in letters]
    manned = [list(letters[:2]), *([letter] for letter in letters[2:])]
    speculator = letters[0].choices["speculator"]
    part: type[Speculator] = speculator.load()
    guesses = speculator.name if part.guesses else ""
    starts = [post.start.remote(msgspec.json.encode(each), guesses) for post, each in zip(posts, manned, strict=True)]
    await asyncio.gather(*starts)
    return manned


def _ours(error: BaseException) -> BaseException:
    """What an actor raised on purpose, without Ray's wrapping."""
    cause = error.cause if isinstance(error, RayTaskError) else None
    if isinstance(cause, ConfigError):
        return cause
    return ConfigError(f"Ray could not start the replica: {error}") if isinstance(error, RayError) else error
