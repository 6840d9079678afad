"""Names that are compared and sorted by their bytes, on SQLite and PostgreSQL alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from django.db import models
from django.db.models import Q
from django.db.models.expressions import Combinable

_Set = TypeVar("_Set")
_Get = TypeVar("_Get")

if TYPE_CHECKING:

    class _Texts(models.CharField[_Set, _Get], Generic[_Set, _Get]):
        _pyi_private_set_type: str | int | Combinable
        _pyi_private_get_type: str
else:

    class _Texts(models.CharField, Generic[_Set, _Get]):
        pass


class PathField(_Texts[_Set, _Get]):
    """A path whose folders are ranges, so that an index finds what is inside one.

    SQLite compares by bytes anyway. PostgreSQL's usual collations put `B` after `a`, and `a/c`
    between `ab` and `ad`. `LIKE`, which is `startswith`, ignores the case on SQLite.
    """

    def db_parameters(self, connection: Any) -> dict[str, Any]:
        parameters = dict(super().db_parameters(connection))
        if connection.vendor == "postgresql":
            parameters["collation"] = "C"
        return parameters


def folder_condition(field: str, folder: str) -> Q:
    """Return the condition for what is in the folder or a folder of it.

    `0` is the character after `/`.
    """
    return Q(**{f"{field}__gte": f"{folder}/", f"{field}__lt": f"{folder}0"})
