"""Imports of what lies in S3: begun by a person or a token, fetched by a worker."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from django.conf import settings
from django.db import transaction
from trimtab.wire import LIMITS, job_of_training

from advisor.importers.described_job import from_describe
from advisor.importers.recording import NotImportableError
from advisor.importers.s3 import Address
from advisor.importers.stated_facts import from_document
from advisor.store.opening import open_store
from webapp.accounts.models import Token, User, Workspace
from webapp.http.problems import Problem
from webapp.imports import allowance, grants, queue
from webapp.imports.description import MOST_BYTES, NAME_SUFFIX
from webapp.imports.models import WHOLE, Import
from webapp.quotas import admission
from webapp.quotas.amounts import UploadAmounts
from webapp.runs import registration
from webapp.runs.models import Artefact, Run

STATED = ("provider", "service", "region", "instance_type", "purchase_option", "columns")
"""The names in `Wanted.stated`."""
_FIX = "Send s3://BUCKET/PREFIX of a training job, below one that your workspace may read."


@dataclass(frozen=True)
class ImportRequest:
    """Request to import a folder, and what is stated about it.

    Attributes:
        job: empty: as the training job is called.
        run_id: None: the one that this address always has in this workspace.
        stated: the machine, as texts; see `advisor.importers.stated_facts.from_document`.
        describe: AWS's description of the job; None: the service asks AWS.
    """

    source: str
    job: str = ""
    run_id: UUID | None = None
    stated: Mapping[str, Any] = field(default_factory=dict)
    describe: Mapping[str, Any] | None = None


def queue_import(workspace: Workspace, by: User | Token, wanted: ImportRequest) -> Import:
    """Queue the import. The same again imports again, into the same run.

    Raises:
        Problem: 403 if the workspace may not read there; 422 for something unreadable; 404 if the
            run is another workspace's; 429 beyond a quota.
    """
    address = _allowed(workspace, wanted.source)
    job = wanted.job or job_of_training(address.name)
    run_id = wanted.run_id or uuid5(NAMESPACE_URL, f"{workspace.uuid}/import/{address}")
    body = _description(address, wanted)
    sha256 = hashlib.sha256(body).hexdigest()
    key = f"runs/{run_id}/artefacts/{sha256}"
    token, user = (by, None) if isinstance(by, Token) else (None, by)
    is_new = _check_owner(workspace, run_id)
    allowance.check(workspace)
    taken = UploadAmounts(run_id, is_new, len(body), len(body))
    with admission.count_while_written(workspace, token, taken):
        open_store(settings.OBJECTS_URL).put(key, body)
        with transaction.atomic():
            run = registration.lock_run(workspace, run_id, job[: LIMITS.name_chars])
            _check_owner(workspace, run.pk)
            artefact, _ = Artefact.objects.get_or_create(
                run=run,
                sha256=sha256,
                defaults={
                    "kind": WHOLE,
                    "name": f"{address.name[: 200 - len(NAME_SUFFIX)]}{NAME_SUFFIX}",
                    "object_key": key,
                    "size_bytes": len(body),
                    "created_by": user,
                },
            )
            Import.objects.update_or_create(artefact=artefact, defaults={"source": str(address)})
            queue.artefact_arrived(artefact)
    return Import.objects.select_related("artefact__run__job").get(artefact=artefact)


def _allowed(workspace: Workspace, source: str) -> Address:
    try:
        Address.parse(source)
    except NotImportableError as error:
        raise Problem(422, f"source: {error}.", "source", _FIX) from None
    try:
        return grants.check_allowed(workspace, source)
    except NotImportableError as error:
        raise Problem(403, f"{source}: {error}", "source", _FIX) from None


def _check_owner(workspace: Workspace, run_id: UUID) -> bool:
    """Return whether the run is new. Raises Problem 404 if it is another workspace's."""
    owner = Run.objects.filter(pk=run_id).values_list("workspace_id", flat=True).first()
    if owner not in (None, workspace.pk):
        raise Problem(404, "This run is not in your workspace.", "run", "Leave the field out.")
    return owner is None


def _description(address: Address, wanted: ImportRequest) -> bytes:
    """Return the upload's description without the address: everybody in the workspace can download
    it.

    Raises:
        Problem: 422 for something that can't be read later.
    """
    document: dict[str, Any] = {"version": 1, "name": address.name, "parts": []}
    document["stated"] = dict(wanted.stated) | ({"job": wanted.job} if wanted.job else {})
    document["describe"] = wanted.describe
    try:
        from_document(document["stated"])
        if wanted.describe is not None:
            from_describe(wanted.describe)
    except NotImportableError as error:
        raise Problem(422, f"{error}.", "describe", "Send it as AWS's command prints it.") from None
    body = json.dumps(document, sort_keys=True).encode()
    if len(body) > MOST_BYTES:
        raise Problem(422, "The description is too large.", "describe", "Send a smaller one.")
    return body
