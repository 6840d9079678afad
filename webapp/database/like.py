"""The comparison LIKE, with the same pattern and the same result on SQLite and PostgreSQL."""

from __future__ import annotations

from typing import Any

from django.db.models import CharField, Lookup


@CharField.register_lookup
class LikeLookup(Lookup):
    """Matches a text whatever its case: `%` is any text, `_` any character, and `\\` before one of
    them takes that meaning away.
    """

    lookup_name = "like"

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        left, of_left = self.process_lhs(compiler, connection)
        right, of_right = self.process_rhs(compiler, connection)
        sql = f"UPPER({left}) LIKE UPPER({right}) ESCAPE '\\'"
        return sql, (*of_left, *of_right)
