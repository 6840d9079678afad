"""Writes many rows as one JSON document: PostgreSQL's driver would take longer to quote each value
of them than the database to store them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from django.db import connection
from django.db.models import Field, JSONField, Model


def save(rows: Sequence[Model], unique: tuple[str, ...] = ()) -> None:
    """Insert rows of one model. They get no id.

    Args:
        unique: the fields by which known rows are found, which are written again.
    """
    if not rows:
        return
    model = type(rows[0])
    fields = _columns(model)
    if connection.vendor == "postgresql":
        document = [{each.column: _written(each, row) for each in fields} for row in rows]
        with connection.cursor() as cursor:
            cursor.execute(_statement(model, unique), [json.dumps(document)])
    else:
        changed = [each.name for each in fields if each.name not in unique] if unique else None
        key = unique or None
        model._default_manager.bulk_create(
            rows, update_conflicts=bool(unique), update_fields=changed, unique_fields=key
        )


def _written(field: Field[Any, Any], row: Model) -> Any:
    """Return the value as text if it is a scalar: JSON has no word for what isn't finite."""
    value = field.get_prep_value(getattr(row, field.attname))
    return value if value is None or isinstance(field, JSONField) else str(value)


@cache
def _columns(model: type[Model]) -> list[Field[Any, Any]]:
    return [field for field in model._meta.concrete_fields if not field.primary_key]


@cache
def _statement(model: type[Model], unique: tuple[str, ...]) -> str:
    quoted = {field.name: f'"{field.column}"' for field in _columns(model)}
    types = ", ".join(f'"{each.column}" {each.db_type(connection)}' for each in _columns(model))
    names, key = ", ".join(quoted.values()), ", ".join(quoted[name] for name in unique)
    changed = ", ".join(f"{q} = EXCLUDED.{q}" for name, q in quoted.items() if name not in unique)
    insert = f'INSERT INTO "{model._meta.db_table}" ({names}) SELECT {names}'
    rows = f" FROM json_to_recordset(%s::json) AS rows ({types})"
    return insert + rows + (f" ON CONFLICT ({key}) DO UPDATE SET {changed}" if unique else "")
