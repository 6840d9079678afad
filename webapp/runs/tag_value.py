"""The value of a tag, for queries."""

from __future__ import annotations

from typing import Any

from django.db.models import CharField, F, Func, Value


class TagValue(Func):
    """The value of one key in a tags column; NULL without that key."""

    function = "JSONB_EXTRACT_PATH_TEXT"
    output_field = CharField()

    def __init__(self, column: str, key: str) -> None:
        super().__init__(F(column), Value(key))

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Any:
        """Not by a JSON path: the key would need quoting, and a number would be a list index."""
        template = "(SELECT value FROM JSON_EACH(%(expressions)s))"
        return self.as_sql(compiler, connection, template=template, arg_joiner=") WHERE key = (")
