"""`manage.py refresh_prices --catalogue`, and runs on the machines that it prices."""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from trimtab.wire import Declaration, Gpu

from advisor.pricing.price import CATALOGUE, REFRESHED, PriceKey
from advisor.pricing.providers.provider import Offer
from advisor.pricing.public_catalogue import files
from tests.web.test_prices_of_runs import analysed
from tests.web.training import Training, upload
from webapp.analysis.models import CostPart
from webapp.prices import machines, writing
from webapp.prices.models import Machine, Price, PriceRefresh
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db
FOLDER = Path(__file__).parents[1] / "money" / "catalogue"
NAMES = ("aws", "azure", "gcp", "lambda", "nebius", "oci", "runpod")


@pytest.fixture
def folder(tmp_path):
    """Return a local copy of yesterday."""
    copy = tmp_path / "catalogue"
    shutil.copytree(FOLDER, copy)
    dated(copy, timezone.now() - timedelta(days=1))
    return copy


def dated(folder: Path, when: datetime) -> None:
    for path in folder.glob("*/vms.csv"):
        os.utime(path, (when.timestamp(), when.timestamp()))


def refresh(*words: object) -> str:
    out = StringIO()
    call_command("refresh_prices", "--catalogue", *map(str, words), stdout=out)
    return out.getvalue()


def listed(name: str, **which: object) -> Price:
    values = {"purchase_option": "on_demand", "precedence": CATALOGUE} | which
    return Price.objects.get(instance_type=name, **values)


@dataclass
class Elsewhere(Training):
    """A training on a machine that is declared, or was told by a metadata service."""

    provider: str = ""
    region: str = ""
    instance_type: str = ""
    purchase_option: str = ""
    gpu: Gpu | None = None

    def declaration(self) -> Declaration:
        declared = super().declaration()
        node = declared.node
        node.provider, node.service, node.region = self.provider, "", self.region
        node.instance_type = self.instance_type
        node.purchase_option = self.purchase_option or node.purchase_option
        node.gpus = [self.gpu] if self.gpu else []
        return declared


def trained(owner, provider: str, region: str, name: str, **more: object) -> Run:
    shape = {"provider": provider, "region": region, "instance_type": name} | more
    return analysed(upload(owner.workspace, Elsewhere("train.py", minutes=1, **shape)))


def hourly_usd(run: Run) -> Decimal | None:
    if run.cost_usd is None:
        return None
    seconds = sum(CostPart.objects.filter(run=run).values_list("microseconds", flat=True)) / 10**6
    return round(run.cost_usd / Decimal(seconds) * 3600, 3)


def test_a_local_copy_fills_seven_providers_and_says_what_it_left_out(folder):
    said = refresh(folder)
    prices = Price.objects.filter(precedence=CATALOGUE)
    assert sorted(set(prices.values_list("provider", flat=True))) == list(NAMES)
    assert "gcp: 10 prices added, 0 unchanged, 5 machines" in said
    assert "skipped 2 lines of TPUs" in said
    assert "skipped 1 line with a spot price above the list price" in said
    assert "azure: 8 prices added" in said
    assert "skipped 1 line without a price" in said
    assert "vast: not in this catalogue" in said
    a100 = listed("Standard_NC24ads_A100_v4", region="eastus")
    assert (a100.usd_per_hour, a100.source) == (Decimal("3.673"), "SkyPilot catalogue")
    assert timezone.now() - timedelta(days=2) < a100.valid_from == a100.seen_at
    assert PriceRefresh.objects.get(name="catalogue/gcp").finished_at is not None


def test_another_copy_confirms_what_is_the_same_and_ends_what_changed(folder):
    refresh(folder, "--as-of", "2026-09-01")
    path = folder / "lambda" / "vms.csv"
    path.write_text(path.read_text().replace("A10,1.0,30.0,200.0,1.29", "A10,1.0,30.0,200.0,1.5"))
    said = refresh(folder, "--as-of", "2026-10-01", "--provider", "lambda")
    assert "lambda: 1 price added, 4 unchanged" in said
    october = datetime(2026, 10, 1, tzinfo=UTC)
    old, new = Price.objects.filter(instance_type="gpu_1x_a10", precedence=CATALOGUE).order_by(
        "valid_from"
    )
    assert (old.usd_per_hour, old.valid_to) == (Decimal("1.29"), october)
    assert (new.usd_per_hour, new.valid_from, new.valid_to) == (Decimal("1.5"), october, None)
    assert listed("gpu_8x_v100", region="us-east-1").seen_at == october


def test_an_older_copy_is_refused(folder):
    refresh(folder, "--as-of", "2026-10-01", "--provider", "oci")
    with pytest.raises(
        CommandError, match="2026-09-01 is older than the prices stored on 2026-10-01"
    ):
        refresh(folder, "--as-of", "2026-09-01", "--provider", "oci")


@pytest.mark.parametrize(
    ("provider", "region", "name", "usd"),
    [
        ("gcp", "us-central1", "a2-highgpu-1g", "3.673"),
        ("azure", "eastus", "Standard_NC24ads_A100_v4", "3.673"),
        ("lambda", "us-west-2", "gpu_1x_a100", "1.990"),
    ],
)
def test_a_run_has_the_price_of_the_catalogue(owner, folder, provider, region, name, usd):
    refresh(folder)
    run = trained(owner, provider, region, name)
    assert hourly_usd(run) == Decimal(usd)
    part = CostPart.objects.get(run=run)
    assert [row.precedence for row in part.prices.all()] == [CATALOGUE]
    assert (part.is_estimated, part.is_later_price) == (False, False)


@pytest.mark.parametrize(
    ("provider", "region", "name", "usd"),
    [
        ("gcp", "europe-west4", "a2-highgpu-1g", "3.670"),
        ("azure", "westeurope", "Standard_NC24ads_A100_v4", "3.670"),
        ("lambda", "", "gpu_1x_a100", "1.990"),
    ],
)
def test_a_run_has_a_bundled_price_without_any_refresh(owner, provider, region, name, usd):
    run = trained(owner, provider, region, name)
    assert hourly_usd(run) == Decimal(usd)
    assert CostPart.objects.get(run=run).is_estimated is (provider != "lambda")


def test_a_spot_machine_has_the_spot_price(owner, folder):
    refresh(folder)
    run = trained(owner, "gcp", "us-central1", "a2-highgpu-1g", purchase_option="spot")
    assert hourly_usd(run) == round(Decimal("0.29576") + Decimal("1.1472"), 3)


def test_an_n1_machine_costs_its_host_and_the_gpus_that_were_seen(owner, folder):
    """The metadata service names the host only. The T4's price is made up."""
    with (folder / "gcp" / "vms.csv").open("a") as file:
        gpu = "{'Gpus': [{'MemoryInfo': {'SizeInMiB': 16384}}]}"
        file.write(f",,,T4,1,{gpu},us-central2,us-central2-b,0.35,0.11\n")
    refresh(folder, "--as-of", "2026-11-01")
    t4 = Gpu("Tesla T4", 15 * 2**30)
    on_host = trained(owner, "gcp", "us-central2", "n1-highmem-8", gpu=t4)
    assert hourly_usd(on_host) == round(Decimal("0.47321") + Decimal("0.35"), 3)
    unknown = Gpu("Tesla P100-PCIE-16GB", 16 * 2**30)
    assert trained(owner, "gcp", "elsewhere", "n1-standard-2", gpu=unknown).cost_usd is None


def test_a_file_that_cant_be_read_changes_nothing_and_the_others_are_read(folder):
    refresh(folder)
    before = list(Price.objects.filter(provider="nebius").order_by("pk").values())
    dated(folder, timezone.now())
    path = folder / "nebius" / "vms.csv"
    path.write_text(path.read_text().replace(",2.95,", ",2.80,").replace("1.5484", "cheap"))
    with pytest.raises(CommandError) as failed:
        refresh(folder)
    assert "nebius/vms.csv, line 5: Price is 'cheap'" in str(failed.value)
    assert list(Price.objects.filter(provider="nebius").order_by("pk").values()) == before
    assert PriceRefresh.objects.get(name="catalogue/runpod").rows_new == 0


def test_contradictions_are_noted_on_the_price_that_does_not_count(folder):
    """AWS's own list overrides the catalogue, which overrides the bundled table."""
    now = timezone.now() - timedelta(days=2)
    key = PriceKey("aws", "ec2", "us-east-1", "c3.large")
    writing.write_offers([Offer(key, Decimal("0.11"), now, "AWS Price List")], now)
    Price.objects.create(
        provider="nebius",
        service="machine",
        region="eu-north1",
        instance_type="gpu-l40s-a_1gpu-8vcpu-32gb",
        usd_per_hour=Decimal("9"),
        valid_from=datetime(2025, 1, 1, tzinfo=UTC),
        source="an old list",
    )
    said = refresh(folder, "--region", "us-east-1", "--region", "eu-north1")
    assert said.count("1 contradict another source") == 2
    ours = listed("c3.large")
    assert ours.note == f"contradicted by AWS Price List on {now:%Y-%m-%d}: $0.11"
    assert not Price.objects.get(precedence=REFRESHED).note
    old = Price.objects.get(source="an old list")
    assert old.note.startswith("contradicted by SkyPilot catalogue on ")
    assert old.note.endswith(": $1.5484")
    assert old.usd_per_hour == 9


def test_the_hardware_is_of_the_provider_and_of_its_region(folder):
    refresh(folder)
    there = machines.catalogue_in("us-east-1", "lambda")
    assert there["gpu_1x_h100_sxm5"].vcpus == 26
    assert not Machine.objects.filter(provider="aws").exists()
    assert "gpu_1x_a100" in Machine.objects.filter(region="us-west-2").values_list(
        "instance_type", flat=True
    )


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        """The tests read what the command says."""


@contextmanager
def served(folder: Path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


def test_it_is_read_over_http_too(folder):
    shutil.rmtree(folder / "oci")
    with served(folder) as url:
        said = refresh(url)
    assert "oci: not in this catalogue" in said
    assert "runpod: 4 prices added" in said
    row = listed("gpu_1x_a10")
    assert timezone.now() - row.valid_from < timedelta(minutes=5)


def test_a_file_that_is_too_large_is_refused(folder, monkeypatch):
    monkeypatch.setattr(files, "MOST_BYTES", 300)
    with served(folder) as url, pytest.raises(CommandError, match="larger than 300 bytes"):
        refresh(url, "--provider", "gcp")
    with pytest.raises(CommandError, match="larger than 300 bytes"):
        refresh(folder, "--provider", "gcp")
    assert not Price.objects.filter(precedence=CATALOGUE).exists()


def test_a_folder_without_a_catalogue_is_an_error(tmp_path):
    (tmp_path / "seeweb").mkdir()
    (tmp_path / "seeweb" / "vms.csv").write_text("x")
    with pytest.raises(CommandError, match=r"no vms\.csv of a known provider found"):
        refresh(tmp_path)
