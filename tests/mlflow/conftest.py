from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.test import Client

from tests.mlflow.client import MlflowClient
from webapp.accounts.models import Token, Workspace
from webapp.prices.models import Price


@pytest.fixture(autouse=True)
def objects_in_a_folder_of_their_own(settings, tmp_path):
    settings.OBJECTS_URL = str(tmp_path / "objects")


@pytest.fixture
def workspace(db) -> Workspace:
    return Workspace.objects.create(name="Ours")


@pytest.fixture
def mlflow(workspace) -> MlflowClient:
    """Return a client with a token that reads and uploads."""
    return MlflowClient(Client(), Token.make(workspace, "all", ["ingest", "read"])[1])


@pytest.fixture
def stranger(db) -> MlflowClient:
    theirs = Workspace.objects.create(name="Theirs")
    return MlflowClient(Client(), Token.make(theirs, "all", ["ingest", "read", "write"])[1])


@pytest.fixture
def prices(db) -> None:
    """Let a c5.large cost $0.085 an hour."""
    Price.objects.create(
        provider="aws",
        service="ec2",
        region="us-east-1",
        instance_type="c5.large",
        valid_from=datetime(2024, 1, 1, tzinfo=UTC),
        usd_per_hour=Decimal("0.085"),
        source="AWS price list",
    )
