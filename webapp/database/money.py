"""Money in rows: whole nano-USD, so that SUM is exact on SQLite and PostgreSQL alike."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from django.core.exceptions import ValidationError
from django.db import models

from advisor.money import from_nano_usd, to_nano_usd

_Set = TypeVar("_Set")
_Get = TypeVar("_Get")

if TYPE_CHECKING:

    class _WholeNumbers(models.BigIntegerField[_Set, _Get], Generic[_Set, _Get]):
        _pyi_private_set_type: Decimal  # type: ignore[assignment]
        _pyi_private_get_type: Decimal  # type: ignore[assignment]
else:

    class _WholeNumbers(models.BigIntegerField, Generic[_Set, _Get]):
        pass


class UsdField(_WholeNumbers[_Set, _Get]):
    """Column of USD: `Decimal` in Python, integer nano-USD in the database. Floats are refused."""

    def from_db_value(self, value: int | None, *_: Any) -> Decimal | None:
        return None if value is None else from_nano_usd(value)

    def to_python(self, value: Any) -> Decimal | None:
        if value is None or isinstance(value, Decimal):
            return value
        if isinstance(value, float):
            raise ValidationError("Money is a Decimal, never a float.")
        try:
            return Decimal(value)
        except ArithmeticError:
            raise ValidationError(f"{value!r} is not an amount of USD.") from None

    def get_prep_value(self, value: Any) -> int | None:
        usd = self.to_python(value)
        return None if usd is None else to_nano_usd(usd)

    def validate(self, value: Any, model_instance: Any) -> None:
        super().validate(None if value is None else self.get_prep_value(value), model_instance)

    def run_validators(self, value: Any) -> None:
        super().run_validators(None if value is None else self.get_prep_value(value))
