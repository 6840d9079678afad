"""A walk through every door of the service, as everybody who might try it.

The doors are found from the URL configuration itself. `AUDIENCES` says who each page is for and
`SCOPES` which tokens may call an operation: a new route fails the walk until it is named there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from tests.web import factories
from webapp.accounts.access import Audience
from webapp.accounts.models import Invitation, Membership, Token, User, Workspace
from webapp.dashboard.models import SavedView
from webapp.notify.addresses import unsubscribe_token
from webapp.notify.models import Mail
from webapp.prices.models import Discount, Price
from webapp.quotas.models import StorageUse
from webapp.runs.models import Run
from webapp.service import agent_wheel
from webapp.sharing.models import ShareLink
from webapp.spend.models import Budget

SECRET = "zephyr-secret"
"""Every text of the walked workspace holds it: nobody outside may ever be sent it."""

METHODS = ("get", "post", "put", "patch", "delete")
EVERYBODY, SIGNED_IN, VIEWERS, MEMBERS, OWNERS = Audience

AUDIENCES: dict[str, dict[str, Audience]] = {
    "healthz": {"get": EVERYBODY},
    "readyz": {"get": EVERYBODY},
    "agent_wheel": {"get": EVERYBODY},
    "problems": {"get": EVERYBODY},
    "manual:contents": {"get": EVERYBODY},
    "manual:page": {"get": EVERYBODY},
    "api_reference": {"get": EVERYBODY},
    "api_section": {"get": EVERYBODY},
    "api_docs": {"get": EVERYBODY},
    "api:openapi-json": dict.fromkeys(METHODS, EVERYBODY),
    "api:api-root": {},
    "accounts:sign_in": {"get": EVERYBODY, "post": EVERYBODY},
    "accounts:oidc_begin": {"get": EVERYBODY},
    "accounts:oidc_return": {"get": EVERYBODY},
    "accounts:sign_in_code": {"get": EVERYBODY, "post": EVERYBODY},
    "accounts:use_link": {"get": EVERYBODY, "post": EVERYBODY},
    "accounts:sign_out": {"post": SIGNED_IN},
    "accounts:forgot_password": {"get": EVERYBODY, "post": EVERYBODY},
    "accounts:new_password": {"get": EVERYBODY, "post": EVERYBODY},
    "accounts:accept_invitation": {"get": EVERYBODY, "post": EVERYBODY},
    "accounts:switch_workspace": {"post": VIEWERS},
    "accounts:account": {"get": SIGNED_IN, "post": SIGNED_IN},
    "accounts:change_password": {"post": SIGNED_IN},
    "accounts:sessions": {"get": SIGNED_IN},
    "accounts:end_session": {"post": SIGNED_IN},
    "accounts:end_all_sessions": {"post": SIGNED_IN},
    "accounts:two_factor": {"get": SIGNED_IN, "post": SIGNED_IN},
    "accounts:new_recovery_codes": {"post": SIGNED_IN},
    "accounts:switch_off_two_factor": {"post": SIGNED_IN},
    "accounts:new_workspace": {"get": SIGNED_IN, "post": SIGNED_IN},
    "accounts:general": {"get": VIEWERS, "post": OWNERS},
    "accounts:members": {"get": VIEWERS, "post": OWNERS},
    "accounts:change_role": {"post": OWNERS},
    "accounts:require_two_factor": {"post": OWNERS},
    "dashboard:leave": {"get": VIEWERS, "post": VIEWERS},
    "dashboard:remove_member": {"get": OWNERS, "post": OWNERS},
    "accounts:withdraw_invitation": {"post": OWNERS},
    "accounts:tokens": {"get": VIEWERS, "post": MEMBERS},
    "accounts:revoke_token": {"post": OWNERS},
    "accounts:history": {"get": OWNERS},
    "accounts:history_csv": {"get": OWNERS},
    "accounts:no_workspace": {"get": SIGNED_IN},
    "dashboard:home": {"get": VIEWERS, "post": MEMBERS},
    "dashboard:runs": {"get": VIEWERS},
    "dashboard:runs_csv": {"get": VIEWERS},
    "dashboard:save_view": {"post": VIEWERS},
    "dashboard:delete_view": {"post": VIEWERS},
    "dashboard:jobs": {"get": VIEWERS},
    "dashboard:jobs_csv": {"get": VIEWERS},
    "dashboard:job": {"get": VIEWERS},
    "dashboard:run": {"get": VIEWERS},
    "dashboard:report": {"get": VIEWERS},
    "dashboard:training": {"get": VIEWERS},
    "runs:edit_run": {"get": MEMBERS, "post": MEMBERS},
    "runs:bill_run": {"post": MEMBERS},
    "runs:correct_machine": {"post": MEMBERS},
    "runs:take_back_correction": {"post": MEMBERS},
    "runs:edit_job": {"get": MEMBERS, "post": MEMBERS},
    "runs:merge_job": {"post": MEMBERS},
    "runs:unmerge_job": {"post": MEMBERS},
    "runs:delete_run": {"post": MEMBERS},
    "runs:restore_run": {"post": MEMBERS},
    "runs:delete_job": {"post": MEMBERS},
    "runs:restore_job": {"post": MEMBERS},
    "dashboard:deleted": {"get": VIEWERS},
    "runs:artefact": {"get": VIEWERS},
    "analysis:analyse_again": {"post": MEMBERS},
    "analysis:join_training": {"post": MEMBERS},
    "analysis:split_training": {"post": MEMBERS},
    "analysis:put_back_training": {"post": MEMBERS},
    "analysis:accept_regression": {"post": MEMBERS},
    "analysis:open_regression_again": {"post": MEMBERS},
    "analysis:compared_by": {"get": VIEWERS},
    "analysis:choose_roles": {"post": MEMBERS},
    "advice:inbox": {"get": VIEWERS},
    "advice:inbox_csv": {"get": VIEWERS},
    "advice:recommendation": {"get": VIEWERS},
    "advice:what_if": {"get": VIEWERS},
    "advice:choose_scheduler": {"post": VIEWERS},
    "advice:decide_many": {"post": MEMBERS},
    "advice:buying": {"get": VIEWERS, "post": OWNERS},
    "advice:dismiss": {"post": MEMBERS},
    "advice:snooze": {"post": MEMBERS},
    "advice:follow": {"post": MEMBERS},
    "advice:reopen": {"post": MEMBERS},
    "directives:stop_run": {"post": MEMBERS},
    "directives:profile_run": {"post": MEMBERS},
    "directives:change_interval": {"post": MEMBERS},
    "runs:series_json": {"get": VIEWERS},
    "runs:series_csv": {"get": VIEWERS},
    "dashboard:run_charts": {"get": VIEWERS},
    "dashboard:node": {"get": VIEWERS},
    "dashboard:compare": {"get": VIEWERS},
    "dashboard:shared": {"get": EVERYBODY},
    "dashboard:shared_charts": {"get": EVERYBODY},
    "dashboard:shared_series": {"get": EVERYBODY},
    "sharing:share_run": {"get": MEMBERS, "post": MEMBERS},
    "sharing:share_comparison": {"get": MEMBERS, "post": MEMBERS},
    "sharing:links": {"get": VIEWERS},
    "sharing:allow_sharing": {"post": OWNERS},
    "sharing:revoke_link": {"post": OWNERS},
    "rulebook:rules": {"get": VIEWERS},
    "rulebook:rule": {"get": VIEWERS},
    "rulebook:parameters": {"get": VIEWERS, "post": OWNERS},
    "rulebook:job_parameters": {"get": VIEWERS, "post": MEMBERS},
    "prices:prices": {"get": VIEWERS},
    "prices:prices_csv": {"get": VIEWERS},
    "prices:update_prices": {"post": OWNERS},
    "prices:machine": {"get": VIEWERS},
    "prices:rates": {"get": VIEWERS},
    "prices:rates_csv": {"get": VIEWERS},
    "prices:add_rate": {"post": OWNERS},
    "prices:import_rates": {"post": OWNERS},
    "prices:add_discount": {"post": OWNERS},
    "prices:end_rate": {"post": OWNERS},
    "prices:end_discount": {"post": OWNERS},
    "spend:spend": {"get": VIEWERS},
    "spend:spend_csv": {"get": VIEWERS},
    "spend:failures": {"get": VIEWERS},
    "spend:failures_csv": {"get": VIEWERS},
    "spend:savings": {"get": VIEWERS},
    "spend:close_recount": {"post": MEMBERS},
    "spend:savings_csv": {"get": VIEWERS},
    "spend:budgets": {"get": VIEWERS},
    "spend:new_budget": {"get": MEMBERS, "post": MEMBERS},
    "spend:edit_budget": {"get": MEMBERS, "post": MEMBERS},
    "spend:delete_budget": {"post": MEMBERS},
    "spend:restore_budget": {"post": MEMBERS},
    "notify:notifications": {"get": VIEWERS, "post": VIEWERS},
    "notify:set_least_saving": {"post": OWNERS},
    "notify:set_up_channel": {"post": VIEWERS},
    "notify:send_test_mail": {"post": VIEWERS},
    "notify:send_again": {"post": VIEWERS},
    "notify:unsubscribe": {"get": EVERYBODY, "post": EVERYBODY},
    # For MLflow's clients, which bring a token of the workspace: `mlflow_walk` calls each method.
    "mlflow:call": {},
    "mlflow:file": {},
    "mlflow:list_files": {},
    "mlflow:elsewhere": {},
    "mlflow:traces": {},
    "mlflow:trace": {},
    "mlflow:trace_file": {},
    # For Prometheus, which brings the operator's token.
    "background:metrics": {},
    "imports:sources": {"get": OWNERS, "post": OWNERS},
    "imports:retry": {"post": MEMBERS},
    "background:background": {"get": OWNERS},
    "background:try_again": {"post": OWNERS},
    "quotas:usage": {"get": VIEWERS},
    "retention:retention": {"get": VIEWERS, "post": OWNERS},
    "retention:delete_workspace": {"get": OWNERS, "post": OWNERS},
    "retention:deleted_workspaces": {"get": SIGNED_IN},
    "retention:restore_workspace": {"post": OWNERS},
}
"""Page -> method -> who it is for. Any other method must be refused to everybody."""

SCOPES: dict[tuple[str, str], set[str]] = {
    ("get", "/api/v1/runs/{run_id}"): {Token.INGEST, Token.READ},
    ("put", "/api/v1/runs/{run_id}"): {Token.INGEST},
    ("patch", "/api/v1/runs/{run_id}"): {Token.WRITE},
    ("get", "/api/v1/runs/{run_id}/series"): {Token.READ},
    ("put", "/api/v1/runs/{run_id}/segments/{session_id}/{seq}"): {Token.INGEST},
    ("post", "/api/v1/runs/{run_id}/segments/{session_id}"): {Token.INGEST},
    ("get", "/api/v1/runs/{run_id}/artefacts"): {Token.READ},
    ("get", "/api/v1/runs/{run_id}/artefacts/{sha256}"): {Token.READ},
    ("put", "/api/v1/runs/{run_id}/artefacts/{sha256}"): {Token.INGEST},
    ("delete", "/api/v1/runs/{run_id}"): {Token.WRITE},
    ("post", "/api/v1/runs/{run_id}/restore"): {Token.WRITE},
    ("get", "/api/v1/jobs"): {Token.READ},
    ("get", "/api/v1/compare"): {Token.READ, Token.INGEST},
    ("get", "/api/v1/cost"): {Token.READ, Token.INGEST},
    ("get", "/api/v1/training"): {Token.READ},
    ("get", "/api/v1/metrics"): {Token.READ},
    ("get", "/api/v1/export"): {Token.READ, Token.INGEST},
    ("get", "/api/v1/runs/{run_id}/report.html"): {Token.READ, Token.INGEST},
    ("get", "/api/v1/runs/{run_id}/imports"): {Token.READ, Token.INGEST},
    ("post", "/api/v1/runs/{run_id}/imports/retry"): {Token.WRITE},
    ("post", "/api/v1/imports"): {Token.WRITE},
    ("get", "/api/v1/failures"): {Token.READ},
    ("get", "/api/v1/spend"): {Token.READ},
    ("get", "/api/v1/budgets"): {Token.READ},
    ("get", "/api/v1/usage"): {Token.READ},
    ("get", "/api/v1/rules"): {Token.READ},
    ("put", "/api/v1/rules"): {Token.WRITE},
    ("post", "/api/v1/runs/{run_id}/what-if"): {Token.READ},
    ("get", "/api/v1/buying"): {Token.READ},
    ("put", "/api/v1/buying"): {Token.WRITE},
    ("get", "/api/v1/jobs/{job_id}/runs"): {Token.READ},
    ("get", "/api/v1/jobs/{job_id}/recommendations"): {Token.READ},
    **{
        ("post", f"/api/v1/jobs/{{job_id}}/recommendations/{{recommendation_id}}/{verb}"): {
            Token.WRITE
        }
        for verb in ("dismiss", "snooze", "reopen")
    },
    ("get", "/api/v1/jobs/{job_id}/measurements"): {Token.READ},
    ("get", "/api/v1/price"): {Token.READ, Token.INGEST},
    ("patch", "/api/v1/jobs/{job_id}"): {Token.WRITE},
    ("delete", "/api/v1/jobs/{job_id}"): {Token.WRITE},
    ("post", "/api/v1/jobs/{job_id}/restore"): {Token.WRITE},
}
"""Operation of the API -> the token scopes that may call it."""
TOKEN_SCOPES = (Token.INGEST, Token.READ, Token.WRITE)

TAKES_NAMES = {
    ("get", f"/api/v1/{name}")
    for name in ("compare", "cost", "export", "training", "runs/{run_id}/report.html")
}
"""Pages and operations that find a run as `JOB#NUMBER` too; every other one must not."""

QUERIES = {
    "runs:series_json": "?names=host.cpu_busy_pct",
    "runs:series_csv": "?names=host.cpu_busy_pct",
    "dashboard:compare": "?a={run_id}&b={other_run_id}",
    "sharing:share_comparison": "?a={run_id}&b={other_run_id}",
    "/api/v1/runs/{run_id}/series": "?names=host.cpu_busy_pct",
    "/api/v1/compare": "?a={run_id}&b={other_run_id}",
    "/api/v1/cost": "?run={run_id}",
    "/api/v1/export": "?run={run_id}&table=ledger",
    "/api/v1/training": "?training={run_id}",
}
DATA = {
    "accounts:switch_workspace": {"workspace": "{workspace_uuid}"},
    "runs:restore_job": {"deleted_at": "2026-01-01T00:00:00+00:00"},
}
"""The data that is posted; nothing where a page isn't named."""
LISTS = {
    "imports:sources",
    "advice:choose_scheduler",
    "advice:decide_many",
    "spend:close_recount",
    "advice:inbox",
    "advice:inbox_csv",
    "dashboard:home",
    "dashboard:runs",
    "dashboard:runs_csv",
    "dashboard:save_view",
    "dashboard:delete_view",
    "spend:savings",
    "spend:savings_csv",
    "dashboard:jobs",
    "dashboard:jobs_csv",
    "dashboard:deleted",
    "accounts:general",
    "advice:buying",
    "accounts:members",
    "accounts:require_two_factor",
    "dashboard:leave",
    "accounts:tokens",
    "accounts:history",
    "accounts:history_csv",
    "rulebook:rules",
    "rulebook:rule",
    "rulebook:parameters",
    "prices:prices",
    "prices:prices_csv",
    "prices:update_prices",
    "prices:machine",
    "prices:rates",
    "prices:rates_csv",
    "prices:add_rate",
    "prices:import_rates",
    "prices:add_discount",
    "spend:spend",
    "spend:spend_csv",
    "spend:failures",
    "spend:failures_csv",
    "spend:budgets",
    "spend:new_budget",
    "sharing:links",
    "sharing:allow_sharing",
    "notify:notifications",
    "notify:set_least_saving",
    "notify:set_up_channel",
    "notify:send_test_mail",
    "notify:send_again",
    "background:background",
    "background:try_again",
    "quotas:usage",
    "retention:retention",
    "retention:delete_workspace",
}
"""The pages that name no row of the workspace in their address: a member of another one sees their
own."""


@dataclass(frozen=True)
class World:
    """One workspace full of secrets, and everybody who might look at it."""

    workspace: Workspace
    arguments: dict[str, Any]
    """The arguments that the converters of the routes are filled with: rows of that workspace."""
    people: dict[str, Client] = field(default_factory=dict)
    named: tuple[dict[str, str], ...] = ()
    """The workspace's runs in the other ways that they may be asked for: argument ->
    `JOB#NUMBER`."""

    def address(self, name: str, route: str, named: Mapping[str, str] | None = None) -> str:
        """Return the route's address with this world's rows in it, `named` in place of their
        ids.
        """
        texts = {key: quote(str(row), safe="") for key, row in self.arguments.items()}
        texts |= {key: quote(text, safe="") for key, text in (named or {}).items()}
        path = "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda m: texts[m[1]], route)
        return path + QUERIES.get(name, "").format(**texts)

    def addresses_by_name(self, name: str, route: str) -> list[str]:
        """Return the route's addresses with each run as `JOB#NUMBER`; none where it asks for no
        run.
        """
        addresses = [self.address(name, route, named) for named in self.named]
        return [each for each in addresses if each != self.address(name, route)]

    def data(self, name: str, method: str) -> dict[str, str] | None:
        """Return the form that is posted to a page."""
        form = DATA.get(name, {}) if method == "post" else {}
        return {field: value.format(**self.arguments) for field, value in form.items()} or None


def world() -> World:
    workspace = factories.workspace(f"{SECRET} team")
    run = _secret_run(workspace)
    other_run = factories.run(run.job)
    elsewhere = factories.workspace("Elsewhere")
    deleted = factories.workspace(f"{SECRET} of old", deleted_at=timezone.now())
    arguments = {
        "run_id": run.pk,
        "other_run_id": other_run.pk,
        "workspace_uuid": workspace.uuid,
        "deleted_uuid": deleted.uuid,
        "membership_id": _colleague(workspace).pk,
        "invitation_uuid": _invitation(workspace).uuid,
        "token_id": Token.make(workspace, SECRET, [Token.READ])[0].pk,
        "user_key": "MQ",
        "reset_token": "no-such-token",
        "job_uuid": run.job.uuid,
        "job_id": run.job.uuid,
        "number": run.number,
        "node_number": 1,
        "recommendation_uuid": run.recommendations.get().uuid,
        "recommendation_id": run.recommendations.get().uuid,
        "secret": "no-such-secret",
        "side": "a",
        "link_uuid": _share_link(run).uuid,
        "session_uuid": uuid4(),
        "unsubscribe_token": _mailed_to_somebody(workspace),
        "wheel_name": agent_wheel.name(),
        "method": "runs/get",
        "version": "3.0",
        "of": run.pk.hex,
        "section": "read",
        "path": f"0/{run.pk.hex}/artifacts/{SECRET}",
        "name": "ledger",
        "session_id": uuid4(),
        "seq": 0,
        "sha256": factories.artefact(run, f"{SECRET}.json.gz").sha256,
        "rule_id": "input_bound",
        "instance_type": "c5.large",
        "price_id": _secret_rate(workspace).pk,
        "discount_id": _secret_discount(workspace).pk,
        "budget_uuid": _secret_budget(workspace).uuid,
    }
    SavedView.objects.create(workspace=workspace, name=SECRET)
    people = {
        "anonymous": Client(),
        "newcomer": _person("newcomer"),
        "outsider": _person("outsider", (elsewhere, Membership.OWNER)),
        "viewer": _person("viewer", *((w, Membership.VIEWER) for w in (workspace, deleted))),
        "member": _person("member", *((w, Membership.MEMBER) for w in (workspace, deleted))),
        "owner": _person("owner", *((w, Membership.OWNER) for w in (workspace, deleted))),
    }
    named = tuple(
        {"run_id": f"{job}#{run.number}", "other_run_id": f"{job}#{other_run.number}"}
        for job in (run.job.name, run.job.key)
    )
    return World(workspace, arguments, people, named)


HELD = {
    "anonymous": EVERYBODY,
    "newcomer": SIGNED_IN,
    "outsider": SIGNED_IN,
    "viewer": VIEWERS,
    "member": MEMBERS,
    "owner": OWNERS,
}
TURNED_AWAY = {"anonymous": (302,), "newcomer": (302, 404), "outsider": (403, 404)}
"""The answers that let somebody in no further."""


def _colleague(workspace: Workspace) -> Membership:
    user = User.objects.create_user("colleague@example.org", name=SECRET)
    return Membership.objects.create(workspace=workspace, user=user, role=Membership.VIEWER)


def _invitation(workspace: Workspace) -> Invitation:
    until = timezone.now() + timedelta(days=1)
    email = f"{SECRET}@example.org"
    return Invitation.objects.create(
        workspace=workspace, email=email, digest="0" * 64, expires_at=until
    )


def _share_link(run: Run) -> ShareLink:
    until = timezone.now() + timedelta(days=1)
    return ShareLink.objects.create(
        workspace=run.workspace, run=run, kind=ShareLink.RUN, digest="1" * 64, expires_at=until
    )


def _secret_run(workspace: Workspace) -> Run:
    job = factories.job(
        workspace, f"{SECRET}.py", key=f"{SECRET}/train.py", owner=SECRET, tags={"team": SECRET}
    )
    run = factories.costed(factories.run(job, owner=SECRET, tags={"team": SECRET}))
    factories.node(run, hostname=SECRET)
    factories.judgement(run, summary=SECRET)
    factories.analysis(run, done=0, error=SECRET, given_up_at=timezone.now())
    factories.recommendation(run, title=SECRET)
    StorageUse.objects.create(
        workspace=workspace, jobs=[[job.pk, 4096]], size_bytes=4096, counted_at=timezone.now()
    )
    return run


def _mailed_to_somebody(workspace: Workspace) -> str:
    """Return the token of the link in a mail from that workspace."""
    reader = factories.member(workspace, email="reader@example.org")
    return unsubscribe_token(Mail(user=reader, workspace=workspace, kind="recommendation"))


def _secret_rate(workspace: Workspace) -> Price:
    return Price.objects.create(
        workspace=workspace,
        provider="aws",
        service="ec2",
        region="us-east-1",
        instance_type="c5.large",
        usd_per_hour=Decimal("0.05"),
        valid_from=timezone.now(),
        source=SECRET,
        precedence=100,
    )


def _secret_discount(workspace: Workspace) -> Discount:
    return Discount.objects.create(
        workspace=workspace, percent=5, family=SECRET, valid_from=timezone.now()
    )


def _secret_budget(workspace: Workspace) -> Budget:
    return Budget.objects.create(
        workspace=workspace, tag_key="team", tag_value=SECRET, amount_usd=Decimal(1)
    )


def _person(name: str, *memberships: tuple[Workspace, str]) -> Client:
    user = User.objects.create_user(f"{name}@example.org")
    for workspace, role in memberships:
        Membership.objects.create(workspace=workspace, user=user, role=role)
    client = Client(raise_request_exception=False)
    client.force_login(user)
    return client


def pages() -> dict[str, str]:
    """Return name -> route of every page; operations of the API are not among them."""
    return {name: route for name, route in _routes() if not _is_operation(name)}


def operations() -> set[tuple[str, str]]:
    """Return (method, path) of every operation of the API, found from its routes."""
    found = set()
    for name, route in _routes():
        if _is_operation(name):
            path = "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", route)
            found |= {(method, path) for method in _methods(route)}
    return found


def _is_operation(name: str) -> bool:
    return name.startswith("api:") and name not in AUDIENCES


def _methods(route: str) -> set[str]:
    from webapp.urls import api

    return {
        method.lower()
        for prefix, router in api._routers
        for path, view in router.path_operations.items()
        for operation in view.operations
        for method in operation.methods
        if _same(route, f"api/v1/{prefix}{path}")
    }


def _same(route: str, path: str) -> bool:
    return re.sub(r"[<{][^>}]*[>}]", "*", route) == re.sub(r"[<{][^>}]*[>}]", "*", path).replace(
        "//", "/"
    )


def _routes() -> list[tuple[str, str]]:
    return sorted(set(_found(get_resolver().url_patterns, "", "")))


def _found(patterns: list[Any], prefix: str, namespace: str) -> Iterator[tuple[str, str]]:
    for each in patterns:
        path = f"{prefix}{each.pattern}"
        if isinstance(each, URLResolver):
            inner = f"{namespace}{each.namespace}:" if each.namespace else namespace
            yield from _found(each.url_patterns, path, inner)
        elif isinstance(each, URLPattern):
            yield f"{namespace}{each.name}", path


def page_problems(world: World, name: str, route: str) -> list[str]:
    """Return what is wrong with who may use a page; empty if nothing is."""
    found = []
    for method in METHODS:
        wanted = AUDIENCES[name].get(method)
        for person, client in world.people.items():
            answer = getattr(client, method)(world.address(name, route), world.data(name, method))
            wrong = _wrong(name, wanted, person, answer)
            found += [f"{method.upper()} {name} as {person}: {problem}" for problem in wrong]
            if method != "get" and answer.status_code < 400:
                _sign_in_again(client, person)
    return found + _named_page_problems(world, name, route)


def _named_page_problems(world: World, name: str, route: str) -> list[str]:
    """Return what is wrong with who gets what when the runs are asked for as `JOB#NUMBER`."""
    found = []
    for address in world.addresses_by_name(name, route):
        for method in AUDIENCES[name]:
            for person in ("outsider", "owner"):
                answer = getattr(world.people[person], method)(address, world.data(name, method))
                is_insider, asked = person == "owner", f"{method.upper()} {address} as {person}"
                wrong = _wrong_by_name((method, name), is_insider, answer)
                found += [f"{asked}: {problem}" for problem in wrong]
    return found


def _wrong_by_name(route: tuple[str, str], is_insider: bool, answer: HttpResponse) -> Iterator[str]:
    """Yield what is wrong with a route that was asked for a run as `JOB#NUMBER`."""
    is_found = answer.status_code < 400
    if is_found and not is_insider:
        yield f"found another workspace's run, {answer.status_code}"
    if is_insider and is_found != (route in TAKES_NAMES):
        yield f"{'takes' if is_found else 'does not take'} JOB#NUMBER, unlike the table says"
    if not is_insider and SECRET.encode() in _sent(answer):
        yield "was sent what belongs to the workspace"


def _sign_in_again(client: Client, person: str) -> None:
    """Sign in again, so that a walk that meets the door out goes on as before."""
    if person != "anonymous":
        client.force_login(User.objects.get(email=f"{person}@example.org"))


def _wrong(name: str, wanted: Audience | None, person: str, answer: HttpResponse) -> Iterator[str]:
    status = answer.status_code
    if status >= 500:
        yield f"broke with {status}"
    if HELD[person] < VIEWERS and SECRET.encode() in _sent(answer):
        yield "was sent what belongs to the workspace"
    is_private = wanted is not None and wanted > EVERYBODY and HELD[person] >= SIGNED_IN
    if is_private and answer.get("Cache-Control") != "no-store":
        yield f"may be kept by a cache: {answer.get('Cache-Control')}"
    if wanted is None:
        if status not in (302, 401, 403, 404, 405):
            yield f"answered {status} to a method that the table doesn't name"
    elif HELD[person] < wanted or (person == "outsider" and wanted >= VIEWERS):
        yield from _let_in(name, wanted, person, status)
    elif status in (401, 403, 404, 405):
        yield f"was turned away with {status}"


def _let_in(name: str, wanted: Audience, person: str, status: int) -> Iterator[str]:
    """Yield what is wrong if somebody for whom the page is not gets in."""
    expected: tuple[int, ...] = TURNED_AWAY.get(person, (403, 404))
    if person == "outsider" and name in LISTS:
        expected = (200, 302)
    if status not in expected:
        yield f"got {status} instead of {' or '.join(map(str, expected))}; it is for {wanted.name}"


def _sent(answer: HttpResponse) -> bytes:
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return bytes(body) + repr(sorted(answer.headers.items())).encode()


def operation_problems(world: World, method: str, path: str) -> list[str]:
    """Return what is wrong with which tokens may call an operation; empty if nothing is."""
    route = path.lstrip("/").replace("{", "<").replace("}", ">")
    address = world.address(path, route)
    own = {
        scope: _token(world.workspace, scope) for scope in (Token.INGEST, Token.READ, Token.WRITE)
    }
    for run in Run.objects.filter(workspace=world.workspace):
        run.uploaders.set(Token.objects.filter(workspace=world.workspace, name=Token.INGEST))
    # It uploaded to no run: for reading it is a stranger.
    idle = _token(world.workspace, Token.INGEST)
    other = factories.workspace("Elsewhere too")
    foreign = Token.make(other, "all", [Token.INGEST, Token.READ, Token.WRITE])[1]
    client = Client(raise_request_exception=False)

    def call(token: str | None, at: str = address) -> HttpResponse:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return getattr(client, method)(at, headers=headers)

    found = []
    if call(None).status_code != 401:
        found.append("answers without a token")
    for scope, token in own.items():
        refused = call(token).status_code == 403
        if refused == (scope in SCOPES[method, path]):
            found.append(f"{'refuses' if refused else 'accepts'} the scope {scope}")
    answer = call(foreign)
    if SECRET.encode() in _sent(answer) or ("{" in path and answer.status_code < 400):
        found.append(f"answers {answer.status_code} to another workspace's token")
    for at in (address, *world.addresses_by_name(path, route)) if method == "get" else ():
        found += _wrong_without_upload(call(idle, at))
    for at in world.addresses_by_name(path, route):
        insider = own[sorted(SCOPES[method, path])[0]]
        for token, is_insider in ((insider, True), (foreign, False)):
            found += _wrong_by_name((method, path), is_insider, call(token, at))
    return [f"{method.upper()} {path} {problem}" for problem in found]


def _wrong_without_upload(answer: HttpResponse) -> Iterator[str]:
    """Yield what is wrong with a read by a token that may only upload, and uploaded to no run."""
    if answer.status_code < 400 or SECRET.encode() in _sent(answer):
        yield f"answers {answer.status_code} to an ingest token that uploaded to no run"


def _token(workspace: Workspace, scope: str) -> str:
    return Token.make(workspace, scope, [scope])[1]


def removal_problems(world: World, person: str, tokens: list[str]) -> list[str]:
    """Return what still answers a member who was removed: any page or operation; empty if nothing
    does.
    """
    found = []
    for name, route in pages().items():
        for method in (each for each, wanted in AUDIENCES[name].items() if wanted >= VIEWERS):
            answer = getattr(world.people[person], method)(
                world.address(name, route), world.data(name, method)
            )
            is_own_list = person == "emigrant" and name in LISTS
            if SECRET.encode() in _sent(answer) or (answer.status_code < 300 and not is_own_list):
                found.append(f"{method.upper()} {name} answers {answer.status_code}")
    client = Client(raise_request_exception=False)
    for method, path in sorted(SCOPES):
        address = world.address(path, path.lstrip("/").replace("{", "<").replace("}", ">"))
        for token in tokens:
            headers = {"Authorization": f"Bearer {token}"}
            status = getattr(client, method)(address, headers=headers).status_code
            if status != 401:
                found.append(f"{method.upper()} {path} answers {status} to a revoked token")
    return found
