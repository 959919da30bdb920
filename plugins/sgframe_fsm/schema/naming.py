"""Which schemas apply to a member by its name."""

from __future__ import annotations

from collections.abc import Iterable

from sgframe_fsm.expressions.store import Store
from sgframe_fsm.leaves.strings import StringSpec, admits
from sgframe_fsm.schema.shapes import Members, Schema, all_of


class Naming:
    """Looks members up by name; patterns are tried once for each name."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[str, str], bool] = {}

    def member(self, groups: Iterable[Members], name: str) -> Schema:
        """The conjunction of what several schema objects say of the member ``name``."""
        schemas = [schema for members in groups for schema in self._of(members, name)]
        return schemas[0] if len(schemas) == 1 else all_of(schemas)

    def _of(self, members: Members, name: str) -> list[Schema]:
        declared = members.by_name.get(name)
        if not members.patterns:
            return [members.additional if declared is None else declared]
        found = [] if declared is None else [declared]
        found += [schema for pattern, schema in members.patterns if self._matches(pattern, name)]
        return found or [members.additional]

    def _matches(self, pattern: str, name: str) -> bool:
        key = (pattern, name)
        if key not in self._known:
            self._known[key] = admits(self._store, StringSpec(patterns=(pattern,)), name)
        return self._known[key]
