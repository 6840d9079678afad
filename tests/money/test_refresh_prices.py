"""`manage.py refresh_prices` against a synthetic Price List and moto's EC2."""

from __future__ import annotations

import dataclasses
import json
import os
import sqlite3
import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO

import hypothesis
import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from advisor.pricing.book import PriceBook
from advisor.pricing.price import REFRESHED, PriceKey
from advisor.pricing.providers.provider import SpotPrice
from tests.money.price_list_stub import (
    PriceListStub,
    bulk_file,
    ec2_entry,
    sagemaker_entry,
    served,
)
from tests.running_service import manage, prepare, wait_until
from tests.web import factories
from webapp.analysis.models import CostPart
from webapp.background import pulling
from webapp.prices import refresh as refreshing
from webapp.prices import sources, writing
from webapp.prices.book import price_book, to_price_row
from webapp.prices.bundled import sync_bundled
from webapp.prices.models import Machine, Price, PriceRefresh
from webapp.prices.sources import SourceRegion
from webapp.prices.tasks import refresh as task

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_EC2_METADATA_DISABLED": "true",
}
NAMES = [f"c5.{size}" for size in ("large", "xlarge", "2xlarge", "4xlarge", "9xlarge", "18xlarge")]


@pytest.fixture
def price_list():
    entries = [ec2_entry(name, f"{n + 1}.5000000000") for n, name in enumerate(NAMES)]
    with served(PriceListStub(entries)) as stub:
        yield stub


@pytest.fixture
def aws(price_list, monkeypatch):
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", price_list.url)
    return price_list


@pytest.fixture
def no_credentials(monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none either"))


def refresh(*words: str) -> str:
    out = StringIO()
    call_command("refresh_prices", *words, stdout=out)
    return out.getvalue()


def ec2(*words: str) -> str:
    return refresh("--only", "ec2", "--region", "us-east-1", *words)


def refreshed(**which: object) -> dict[str, Decimal]:
    rows = Price.objects.filter(precedence=REFRESHED, **which)
    return {row.instance_type: row.usd_per_hour for row in rows}


@pytest.mark.django_db
def test_it_fills_the_table_page_by_page(aws):
    aws.page_size = 4
    assert "6 read, 6 new" in ec2()
    assert refreshed() == {name: Decimal(n + 1) + Decimal("0.5") for n, name in enumerate(NAMES)}
    assert [question.get("NextToken") for question in aws.asked] == [None, "page-4"]
    row = Price.objects.get(precedence=REFRESHED, instance_type="c5.large")
    assert row.valid_from == datetime(2026, 11, 1, tzinfo=UTC)
    assert (row.valid_to, row.source, row.estimated) == (None, "AWS Price List", False)
    assert row.seen_at is not None


@pytest.mark.django_db
def test_it_refreshes_the_usual_regions_or_all_that_have_bundled_prices(aws):
    usual = ["ap-northeast-1", "eu-west-1", "us-east-1", "us-west-2"]
    assert [part.region for part in sources.parts(["ec2"])] == usual
    done = [
        line.partition(":")[0] for line in refresh("--only", "ec2", "--all-regions").splitlines()
    ]
    assert len(done) >= 30
    assert {"ec2/eu-central-1", "ec2/sa-east-1", *(f"ec2/{region}" for region in usual)} <= set(
        done
    )
    with pytest.raises(CommandError, match="not allowed with"):
        refresh("--all-regions", "--region", "us-east-1")


@pytest.mark.django_db
def test_it_takes_the_shared_linux_machine_on_demand_and_nothing_else(aws):
    aws.entries = [
        ec2_entry("p5.48xlarge", "55.04"),
        ec2_entry("p5.48xlarge", "60.00", tenancy="Dedicated"),
        ec2_entry("p5.48xlarge", "64.00", operatingSystem="Windows"),
        ec2_entry("p5.48xlarge", "0.00", capacitystatus="UnusedCapacityReservation"),
        ec2_entry("p5.48xlarge", "31.00", marketoption="CapacityBlock"),
        ec2_entry("m5.large", "0.0000000000"),
    ]
    ec2()
    assert refreshed() == {"p5.48xlarge": Decimal("55.04")}


@pytest.mark.django_db
def test_it_takes_sagemakers_training_and_no_other_component(aws):
    aws.entries = [
        sagemaker_entry("ml.p3.8xlarge", "16.00", "Hosting"),
        sagemaker_entry("ml.p3.8xlarge", "14.688"),
        sagemaker_entry("ml.p3.8xlarge", "17.00", "Notebook"),
        sagemaker_entry("ml.c7i-flex.large-Training", "0.10"),
    ]
    refresh("--only", "sagemaker_training", "--region", "us-east-1")
    assert refreshed(service="sagemaker_training") == {
        "ml.p3.8xlarge": Decimal("14.688"),
        "ml.c7i-flex.large": Decimal("0.10"),
    }


@pytest.mark.django_db
def test_asked_again_it_finds_nothing_new_and_says_when_the_price_was_seen(aws):
    ec2()
    before = Price.objects.get(precedence=REFRESHED, instance_type="c5.large")
    assert "refreshed within the last 20 hours" in ec2()
    assert "6 read, 0 new" in ec2("--again")
    after = Price.objects.get(precedence=REFRESHED, instance_type="c5.large")
    assert after.pk == before.pk
    assert after.seen_at > before.seen_at


@pytest.mark.django_db
def test_a_changed_price_closes_the_row_and_an_old_run_keeps_the_price_of_its_date(aws):
    ec2()
    old = Price.objects.get(precedence=REFRESHED, instance_type="c5.large")
    Price.objects.filter(pk=old.pk).update(seen_at=datetime(2026, 11, 5, tzinfo=UTC))
    part = _cost_that_refers_to(old)

    aws.entries[0] = ec2_entry("c5.large", "1.2000000000")
    term = next(iter(aws.entries[0]["terms"]["OnDemand"].values()))
    term["effectiveDate"] = "2026-11-10T00:00:00Z"
    assert "6 read, 1 new" in ec2("--again")

    change = datetime(2026, 11, 10, tzinfo=UTC)
    rows = Price.objects.filter(precedence=REFRESHED, instance_type="c5.large")
    assert [(r.usd_per_hour, r.valid_from, r.valid_to) for r in rows.order_by("valid_from")] == [
        (Decimal("1.5"), datetime(2026, 11, 1, tzinfo=UTC), change),
        (Decimal("1.2"), change, None),
    ]
    assert list(part.prices.values_list("pk", flat=True)) == [old.pk]
    book = price_book(part.run.workspace, ["us-east-1"])
    key = PriceKey("aws", "ec2", "us-east-1", "c5.large")
    for when, usd in ((change - timedelta(seconds=1), "1.5"), (change, "1.2")):
        priced = book.price_at(key, when)
        assert priced is not None
        assert priced.row.usd_per_hour == Decimal(usd)


def _cost_that_refers_to(price: Price) -> CostPart:
    run = factories.run(factories.job(factories.workspace()))
    part = CostPart.objects.create(
        run=run, node=factories.node(run), day="2026-11-06", microseconds=1, usd=Decimal("0.1")
    )
    part.prices.add(price)
    return part


@pytest.mark.django_db
def test_a_change_dated_before_the_old_price_was_last_seen_counts_from_when_it_is_seen(aws):
    ec2()
    began = timezone.now()
    aws.entries[0] = ec2_entry("c5.large", "1.2000000000")
    ec2("--again")
    new = Price.objects.get(precedence=REFRESHED, instance_type="c5.large", valid_to=None)
    assert new.valid_from >= began


@pytest.mark.django_db
def test_throttling_is_waited_out(aws):
    aws.throttled = 2
    assert "6 read, 6 new" in ec2()


@pytest.mark.django_db
def test_an_interrupted_refresh_goes_on_with_the_page_it_had_not_seen(aws):
    aws.page_size = 2

    def break_off(state: PriceRefresh) -> None:
        if state.pages == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        refreshing.refresh(SourceRegion("ec2", "us-east-1"), break_off)
    aws.asked.clear()
    assert "6 read, 6 new" in ec2()
    assert [question.get("NextToken") for question in aws.asked] == ["page-4"]
    assert len(refreshed()) == 6


@pytest.mark.django_db
def test_an_expired_token_means_from_the_beginning(aws):
    aws.page_size = 2
    aws.tokens_expired = True
    assert "6 read" in ec2()
    assert len(refreshed()) == 6


@pytest.mark.django_db(transaction=True)
def test_two_at_once_do_no_harm(aws):
    aws.page_size = 2
    part = SourceRegion("ec2", "us-east-1")
    met = []

    def another(state: PriceRefresh) -> None:
        if not met:
            met.append(state.pages)
            refreshing.refresh(part, lambda _: None)

    with pytest.raises(refreshing.OvertakenError, match="another refresh is running"):
        refreshing.refresh(part, another)
    assert len(refreshed()) == 6
    assert PriceRefresh.objects.get(name=part.name).rows_new == 6


@pytest.mark.django_db
def test_what_aws_refuses_is_said_and_kept_and_the_other_parts_go_on(aws):
    refuse = {"__type": "AccessDeniedException", "message": "no pricing:GetProducts"}
    real = aws.answer

    def answer(question):
        is_ec2 = question["ServiceCode"] == "AmazonEC2"
        return (400, refuse) if is_ec2 else real(question)

    aws.entries.append(sagemaker_entry("ml.m5.large", "0.115"))
    aws.answer = answer
    with pytest.raises(CommandError, match=r"ec2/us-east-1: .*no pricing:GetProducts"):
        refresh("--only", "ec2", "--only", "sagemaker_training", "--region", "us-east-1")
    assert "no pricing:GetProducts" in PriceRefresh.objects.get(name="ec2/us-east-1").error
    assert refreshed() == {"ml.m5.large": Decimal("0.115")}


@pytest.mark.django_db
def test_without_credentials_it_says_what_to_do_and_the_task_asks_nobody(no_credentials):
    with pytest.raises(CommandError, match="--public-files"):
        ec2()
    task()
    assert not PriceRefresh.objects.exists()


@pytest.mark.django_db
def test_without_credentials_a_part_that_waits_is_not_tried(no_credentials):
    refreshing.want_due([SourceRegion("ec2", "us-east-1")], timezone.now())
    assert pulling.pull() == 1
    row = PriceRefresh.objects.get()
    assert (row.attempts, row.error) == (0, "")
    assert row.wanted > row.done
    assert pulling.pull() == 0, "until another day"


@pytest.mark.django_db
def test_the_task_asks_for_whatever_is_due(aws, monkeypatch):
    sources = [SourceRegion("ec2", "us-east-1"), SourceRegion("ec2", "eu-west-1")]
    monkeypatch.setattr("webapp.prices.sources.parts", lambda *_: sources)
    aws.entries.append(ec2_entry("c5.large", "1.7", region="eu-west-1"))
    task()
    assert pulling.pull() == 2
    assert refreshed(region="eu-west-1") == {"c5.large": Decimal("1.7")}
    aws.asked.clear()
    task()
    assert pulling.pull() == 0
    assert aws.asked == []


@pytest.fixture
def ec2_of_moto(s3_endpoint, monkeypatch):
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", s3_endpoint)


@pytest.mark.django_db
def test_it_learns_which_machines_a_region_has_and_which_are_gone(ec2_of_moto):
    refresh("--only", "machines", "--region", "us-east-1")
    assert Machine.objects.filter(region="us-east-1").count() > 1000
    p4d = Machine.objects.get(region="us-east-1", instance_type="p4d.24xlarge").hardware
    assert (p4d["gpu_count"], p4d["gpu_key"], p4d["network_gbps"]) == (8, "A100-40-SXM", 400.0)
    assert not Machine.objects.filter(instance_type="p3.8xlarge").exists()

    earlier = timezone.now() - timedelta(days=2)
    Machine.objects.create(
        provider="aws", region="us-east-1", instance_type="p3.8xlarge", hardware={},
        first_seen_at=earlier, last_seen_at=earlier,
    )  # fmt: skip
    refresh("--only", "machines", "--region", "us-east-1", "--again")
    assert Machine.objects.get(instance_type="p3.8xlarge").gone_at is not None
    assert Machine.objects.get(instance_type="p4d.24xlarge").gone_at is None


@pytest.mark.django_db
def test_it_keeps_spot_prices_by_zone(ec2_of_moto):
    refresh("--only", "spot", "--region", "us-east-1")
    zones = Price.objects.filter(precedence=REFRESHED, instance_type="p4d.24xlarge")
    assert len(set(zones.values_list("zone", flat=True))) > 1
    assert set(zones.values_list("purchase_option", "usd_per_hour")) == {
        ("spot", Decimal("0.00001"))
    }
    count = Price.objects.count()
    refresh("--only", "spot", "--region", "us-east-1", "--again")
    assert Price.objects.count() == count


@pytest.mark.django_db
def test_one_command_refreshes_prices_machines_and_spot_and_the_book_uses_them(aws, ec2_of_moto):
    """The command reads copies of AWS's answers: the price list's schema, and moto's record of
    EC2.
    """
    sync_bundled()
    aws.entries = [
        ec2_entry("g5.xlarge", "1.111"),
        ec2_entry("g5.xlarge", "1.222", region="us-west-2"),
        sagemaker_entry("ml.g5.xlarge", "1.444"),
    ]
    done = refresh("--region", "us-east-1")
    for part in ("ec2", "sagemaker_training", "machines", "spot"):
        assert f"{part}/us-east-1: " in done
    key = PriceKey("aws", "ec2", "us-east-1", "g5.xlarge")
    training = PriceKey("aws", "sagemaker_training", "us-east-1", "ml.g5.xlarge")
    book, now = price_book(factories.workspace(), ["us-east-1", "us-west-2"]), timezone.now()
    assert book.price_at(key, now).row.usd_per_hour == Decimal("1.111")
    assert book.price_at(training, now).row.usd_per_hour == Decimal("1.444")
    west = dataclasses.replace(key, region="us-west-2")
    assert book.price_at(west, now).row.usd_per_hour == Decimal("1.006"), "bundled: not asked"
    assert Machine.objects.filter(region="us-east-1", instance_type="g5.xlarge").exists()
    assert refreshed(purchase_option="spot")["g5.xlarge"] == Decimal("0.00001")
    again = refresh("--region", "us-east-1").splitlines()
    assert len(again) == 4
    assert all(line.endswith("refreshed within the last 20 hours") for line in again)


spot_changes = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 3)), unique_by=lambda change: change[0]
)


@pytest.mark.django_db
@hypothesis.settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spot_changes, st.integers(1, 5))
def test_spot_prices_are_the_same_in_whatever_order_and_pages_they_are_told(told, size):
    key = PriceKey("aws", "ec2", "us-east-1", "g5.xlarge", "spot", "us-east-1a")
    start, day = datetime(2026, 9, 1, tzinfo=UTC), timedelta(days=1)
    source = "AWS spot price history"
    prices = [SpotPrice(key, Decimal(usd), start + n * day, source) for n, usd in told]
    Price.objects.filter(precedence=REFRESHED).delete()
    for at in range(0, len(prices), size):
        writing.write_spot(prices[at : at + size], timezone.now())
    assert writing.write_spot(prices, timezone.now()) == 0
    book = PriceBook(to_price_row(row) for row in Price.objects.filter(precedence=REFRESHED))
    for n in range(31):
        before = [usd for time, usd in sorted(told) if time <= n]
        priced = book.price_at(key, start + n * day)
        assert (priced.row.usd_per_hour if priced and not priced.later else None) == (
            before[-1] if before else None
        )


@pytest.mark.django_db
def test_a_bulk_file_serves_where_there_are_no_credentials(no_credentials, tmp_path):
    entries = [ec2_entry("c5.large", "0.085"), ec2_entry("c5.large", "9", tenancy="Host")]
    path = tmp_path / "index.json"
    path.write_text(json.dumps(bulk_file(*entries), indent=2))
    assert "1 read, 1 new" in refresh("--bulk", str(path))
    assert refreshed() == {"c5.large": Decimal("0.085")}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"offerCode": "AmazonS3"}', "a bulk price file of AmazonS3"),
        ("[]", "not a bulk price file"),
        ("", "ends too early"),
        ('{"offerCode": "AmazonEC2", "products": {"A": {"sku"', "ends too early"),
        ("{}", "no offerCode"),
    ],
)
def test_a_file_that_is_no_price_file_is_named_with_its_fault(tmp_path, text, words):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(CommandError, match=f"other.json: .*{words}"):
        refresh("--bulk", str(path))


@pytest.mark.django_db
def test_a_bulk_file_is_fetched_by_its_address_and_gone_on_from_where_it_broke(
    no_credentials, tmp_path, settings
):
    settings.DATA_DIR = tmp_path / "data"
    entries = [ec2_entry(name, f"{n + 1}") for n, name in enumerate(NAMES)]
    whole = json.dumps(bulk_file(*entries)).encode()
    ranges: list[str] = []
    with FileServer(whole, ranges) as url:
        part = settings.DATA_DIR / "price-files" / "offers-index.part"
        part.parent.mkdir(parents=True)
        part.write_bytes(whole[:1000])
        assert "6 read, 6 new" in refresh("--bulk", f"{url}/offers/index.json")
    assert ranges == ["bytes=1000-"]
    assert len(refreshed()) == 6


class FileServer:
    """Serves one body, with ranges."""

    def __init__(self, body: bytes, ranges: list[str]) -> None:
        class Handler(SimpleHTTPRequestHandler):
            def do_GET(self) -> None:
                row = self.headers.get("Range", "")
                ranges.append(row)
                begin = int(row.removeprefix("bytes=").removesuffix("-") or 0)
                self.send_response(206 if row else 200)
                self.send_header("Content-Length", str(len(body) - begin))
                self.end_headers()
                self.wfile.write(body[begin:])

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> str:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_port}"

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.mark.processes
@pytest.mark.long
def test_a_refresh_that_is_killed_goes_on_where_it_was(price_list, tmp_path):
    price_list.page_size = 2
    stuck = threading.Event()
    killed = threading.Event()

    def wait_on_the_third_page(question):
        if question.get("NextToken") == "page-4" and not killed.is_set():
            stuck.set()
            killed.wait(60)

    price_list.before_answer = wait_on_the_third_page
    variables = CREDENTIALS | {"AWS_ENDPOINT_URL_PRICING": price_list.url}
    prepare(tmp_path)
    words = ("refresh_prices", "--only", "ec2", "--region", "us-east-1")
    first = manage(tmp_path, *words, **variables)
    wait_until(stuck.is_set, 60, "the third page is asked for")
    os.kill(first.pid, 9)
    first.wait(10)
    killed.set()

    price_list.asked.clear()
    second = manage(tmp_path, *words, **variables)
    output = second.communicate(timeout=120)[0]
    assert second.returncode == 0, output
    assert "6 read, 6 new" in output
    assert [question.get("NextToken") for question in price_list.asked] == ["page-4"]
    with sqlite3.connect(tmp_path / "trimtab.sqlite3") as database:
        count = database.execute("SELECT COUNT(*) FROM prices_price WHERE precedence = 10")
        assert count.fetchone() == (6,)
