"""JSON Schema documents, to their normal form: a union of shapes, each of one JSON type with positive keywords."""
