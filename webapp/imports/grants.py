"""Says which S3 folders a workspace may import: the service's credentials read them, so the
operator allows them.
"""

from __future__ import annotations

from django.conf import settings

from advisor.importers.recording import NotImportableError
from advisor.importers.s3 import Address
from webapp.accounts.models import Workspace

EVERY_WORKSPACE = "*"


def addresses(workspace: Workspace) -> list[Address]:
    """Return the folders that the workspace may import from. Names of buckets are for owners."""
    own = (EVERY_WORKSPACE, str(workspace.uuid))
    return [Address.parse(url) for name, url in settings.IMPORT_S3 if name in own]


def check_allowed(workspace: Workspace, url: str) -> Address:
    """Return the address, if the workspace may import from it.

    Raises:
        NotImportableError: it may not, or it has another form. Names no other bucket.
    """
    address = Address.parse(url)
    if not any(grant.holds(address) for grant in addresses(workspace)):
        raise NotImportableError(
            "this workspace may not import from there. The operator of the service allows it by "
            f"TRIMTAB_IMPORT_S3={workspace.uuid}=s3://BUCKET/PREFIX."
        )
    return address
