"""Adding a provider of machines needs one file and its table of prices only."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from advisor.pricing.catalogue import catalogue
from advisor.pricing.providers import machine_name, minimum_seconds, providers, services, sold_as
from tests import scratch as scratch_copy
from tests.offline.folders import as_files, document, simulated

MODULE = """
from advisor.pricing.providers.provider import Provider, Service


class Nimbus(Provider):
    name = "nimbus"
    title = "Nimbus"
    services = (Service("nimbus_vm", "Nimbus VM", type_prefix="vm.", minimum_seconds=1200),)

    def service_of(self, instance_type):
        return "nimbus_vm"


PROVIDER = Nimbus()
"""
TABLE = """\
provider,service,region,instance_type,purchase_option,usd_per_hour,valid_from,valid_to,last_seen,estimated,source
nimbus,nimbus_vm,sky-1,vm.n1.large,on_demand,3.60,2020-01-01,,2020-12-31,0,Nimbus price list
"""
FORM = """
import django; django.setup()
from webapp.prices.forms import RateForm
fields = RateForm().fields
print(dict(fields["service"].choices)["nimbus_vm"], dict(fields["provider"].choices)["nimbus"])
"""


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the project with one more provider."""
    copy = tmp_path_factory.mktemp("scratch")
    scratch_copy.copy(copy)
    (copy / "advisor" / "pricing" / "providers" / "nimbus.py").write_text(MODULE)
    table = copy / "advisor" / "pricing" / "tables" / "nimbus" / "prices.csv"
    table.parent.mkdir()
    table.write_text(TABLE)
    return copy


def test_a_new_provider_prices_a_run(scratch, tmp_path):
    """3 machines for 503 s, of which 1,200 s are billed, at $3.60."""
    as_files(simulated()[0], tmp_path)
    words = ("--provider", "nimbus", "--service", "nimbus_vm", "--region", "sky-1")
    report = document(tmp_path, *words, "--instance-type", "vm.n1.large", root=scratch)
    assert Decimal(report["cost_usd"]) == 3 * Decimal("3.60") * 1200 / 3600
    assert {price for part in report["cost_parts"] for price in part["prices"]} == {
        "3.60 an hour, Nimbus price list"
    }
    assert any("1200 s" in note for note in report["cost_notes"])


def test_a_machine_of_a_new_provider_finds_its_service(scratch, tmp_path):
    as_files(simulated()[0], tmp_path, declared=False)
    words = ("--provider", "nimbus", "--region", "sky-1", "--instance-type", "vm.n1.large")
    report = document(tmp_path, *words, root=scratch)
    assert Decimal(report["cost_usd"]) == 3 * Decimal("3.60") * 503 / 3600


def test_a_new_provider_can_be_given_a_rate(scratch):
    done = scratch_copy.python(scratch, "-c", FORM, DJANGO_SETTINGS_MODULE="webapp.settings")
    assert done.stdout == "Nimbus VM Nimbus\n", done.stderr


def test_every_machine_keeps_its_name_through_what_it_is_sold_as():
    for name in catalogue():
        assert all(machine_name(sold_as(service, name)) == name for service in services())
    assert machine_name("ml.p3.8xlarge") == "p3.8xlarge"
    assert sold_as("sagemaker_training", "p3.8xlarge") == "ml.p3.8xlarge"


def test_each_service_belongs_to_one_provider():
    names = [service.name for each in providers().values() for service in each.services]
    assert len(names) == len(set(names))
    sources = [source.name for each in providers().values() for source in each.sources]
    assert len(sources) == len(set(sources))
    assert minimum_seconds() == {"ec2": 60}
