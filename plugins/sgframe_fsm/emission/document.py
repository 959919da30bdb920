"""JSON Schema as an expression: the values of a document's root, written out.

Owns which subschemas are written in place and which by reference, and that nesting takes no stack. What a schema means is
the normal form's business; how a shape is written is that of its own module.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sgframe_fsm.emission.arrays import array_expression
from sgframe_fsm.emission.emitting import Context, Emitting, shared
from sgframe_fsm.emission.objects import object_expression
from sgframe_fsm.errors import Unsupported
from sgframe_fsm.expressions.store import Expr
from sgframe_fsm.leaves.numbers import number_expression
from sgframe_fsm.leaves.strings import string_expression
from sgframe_fsm.schema.shapes import (
    ArrayShape,
    Booleans,
    Const,
    Null,
    NumberShape,
    ObjectShape,
    Schema,
    Shape,
    StringShape,
)


def schema_expression(context: Context, schema: Schema, name: str = "value") -> Expr:
    """The values of ``schema``; NOTHING where it is plain that there is none.

    Schemas that contain themselves become references, their names made of ``name``. Raises Unsupported and others as
    ``Document.shapes`` does.
    """
    return _Emission(context, name).value(schema)


@dataclass
class _Emission:
    """The schemas of one document that were written so far, and those that are being written."""

    context: Context
    name: str
    _written: dict[Schema, Expr] = field(default_factory=dict)
    _open: dict[Schema, str | None] = field(default_factory=dict)  # with a name where it was asked for meanwhile

    def value(self, root: Schema) -> Expr:
        """A loop in place of recursion: the innermost schema that is being written is the last one on the stack."""
        stack: list[tuple[Schema, Emitting]] = []
        wanted, answer = root, self._begin(root, stack)
        while stack:
            schema, emitting = stack[-1]
            try:
                wanted = emitting.send(answer)  # type: ignore[arg-type]  # None starts it
            except StopIteration as end:
                stack.pop()
                answer = self._finish(schema, end.value)
            else:
                answer = self._begin(wanted, stack)
        return self._written[root]

    def _begin(self, schema: Schema, stack: list[tuple[Schema, Emitting]]) -> Expr | None:
        """What is known of ``schema``, or None: then it is the next to be written."""
        if schema in self._written:
            return self._written[schema]
        if schema in self._open:
            name = self._open[schema] or f"{self.name} {len(self._written)}.{len(stack)}"
            self._open[schema] = name
            return self.context.store.reference(name)
        self._open[schema] = None
        stack.append((schema, self._shapes(schema)))
        return None

    def _finish(self, schema: Schema, written: Expr) -> Expr:
        name = self._open.pop(schema)
        if name is not None:
            self.context.store.define(name, written)
            written = self.context.store.reference(name)
        self._written[schema] = written
        return written

    def _shapes(self, schema: Schema) -> Emitting:
        store, shapes = self.context.store, self.context.document.shapes(schema)
        alternatives = []
        for shape in shapes:
            written = yield from self._shape(shape)
            # What objects have in common at their start is found where they are read; to find it here costs more.
            apart = isinstance(shape, ObjectShape) and len(shapes) > 1
            alternatives.append(shared(store, written) if apart else written)
        return alternatives[0] if len(alternatives) == 1 else store.union(alternatives)

    def _shape(self, shape: Shape) -> Emitting:
        if isinstance(shape, ObjectShape):
            return (yield from object_expression(self.context, shape))
        if isinstance(shape, ArrayShape):
            return (yield from array_expression(self.context, shape))
        return self._scalar(shape)

    def _scalar(self, shape: Null | Booleans | Const | NumberShape | StringShape) -> Expr:
        store = self.context.store
        match shape:
            case StringShape():
                return string_expression(store, shape.spec)
            case NumberShape():
                return self._number(shape)
            case Const():
                return self.context.literal(shape.value)
            case Booleans():
                return store.union((store.literal(b"true"), store.literal(b"false")))
        return store.literal(b"null")

    def _number(self, shape: NumberShape) -> Expr:
        try:
            return number_expression(self.context.store, shape.spec)
        except Unsupported as error:
            self.context.document.refuse(Unsupported(shape.pointer, error.keyword, error.reason))
        return number_expression(self.context.store, replace(shape.spec, multiples=()))
