"""The value of a tag, for queries."""

from __future__ import annotations

import re
from typing import Any

from django.db.models import CharField, F, Func, Value

_PLAIN = re.compile(r"[\w .:/-]+", re.ASCII)


class TagValue(Func):
    """The value of one key in a tags column; NULL without that key."""

    function = "JSONB_EXTRACT_PATH_TEXT"
    output_field = CharField()

    def __init__(self, column: str, key: str) -> None:
        super().__init__(F(column), Value(key))

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Any:
        """Select the value by a JSON path if the key is the same within its quotes as in the
        column's text, which takes a fifth of the time; otherwise compare each key.
        """
        column, key = self.get_source_expressions()
        if _PLAIN.fullmatch(key.value):
            by_path = Func(column, Value(f'$."{key.value}"'), function="JSON_EXTRACT")
            return by_path.as_sql(compiler, connection)
        template = "(SELECT value FROM JSON_EACH(%(expressions)s))"
        return self.as_sql(compiler, connection, template=template, arg_joiner=") WHERE key = (")
