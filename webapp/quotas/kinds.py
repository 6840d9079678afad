"""What one workspace or one token may use, and where its limit is set.

A limit is the operator's: settings for all workspaces, `manage.py quota` for one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.template.defaultfilters import filesizeformat

from webapp.accounts.models import Workspace

BYTES = "bytes"
ONE = {"runs": "run"}


@dataclass(frozen=True)
class Quota:
    """What is counted, for a workspace or for each of its tokens.

    Attributes:
        name: in the workspace's own limits, the API and the counters.
        setting: the default limit's name in the settings; 0: no limit.
        refused: what is refused beyond it, in the plural.
        reached: the words of a refusal; `{limit}` is the limit with its unit.
        fix: what else to do than to wait.
    """

    name: str
    title: str
    unit: str
    setting: str
    refused: str
    reached: str
    fix: str = ""

    def limit(self, workspace: Workspace) -> int:
        """0: no limit."""
        own = workspace.quotas.get(self.name)
        return int(getattr(settings, self.setting) if own is None else own)

    def words(self, amount: int) -> str:
        """The amount with its unit. Sizes are in powers of 1024, as on every page."""
        if self.unit == BYTES:
            return filesizeformat(amount).replace("\xa0", " ")
        unit = ONE.get(self.unit, self.unit) if amount == 1 else self.unit
        return f"{amount:,} {unit}"


UPLOADED = Quota(
    "upload_bytes",
    "Uploaded in 24 hours",
    BYTES,
    "WORKSPACE_UPLOAD_BYTES_A_DAY",
    "Uploads",
    "The workspace may upload {limit} in 24 hours, and has done so.",
)
TOKEN_UPLOADED = Quota(
    "token_upload_bytes",
    "Uploaded in 24 hours with one token",
    BYTES,
    "TOKEN_UPLOAD_BYTES_A_DAY",
    "Uploads",
    "This token may upload {limit} in 24 hours, and has done so.",
)
RUNS = Quota(
    "runs",
    "New runs in 24 hours",
    "runs",
    "WORKSPACE_RUNS_A_DAY",
    "New runs",
    "The workspace may begin {limit} in 24 hours, and has done so.",
)
TOKEN_RUNS = Quota(
    "token_runs",
    "New runs in 24 hours with one token",
    "runs",
    "TOKEN_RUNS_A_DAY",
    "New runs",
    "This token may begin {limit} in 24 hours, and has done so.",
)
SERIES = Quota(
    "series",
    "Different series in 24 hours",
    "series",
    "WORKSPACE_SERIES_A_DAY",
    "New series",
    "The workspace may send {limit} in 24 hours, and has done so.",
    "Keep the names of series the same from segment to segment. ",
)
STORED = Quota(
    "storage_bytes",
    "Stored",
    BYTES,
    "WORKSPACE_STORAGE_BYTES",
    "Uploads",
    "The workspace may store {limit}, and its samples and artefacts have reached that.",
    "Delete runs, or keep samples for fewer days. ",
)
QUOTAS = (UPLOADED, RUNS, SERIES, STORED, TOKEN_UPLOADED, TOKEN_RUNS)
OF_TOKENS = (TOKEN_UPLOADED, TOKEN_RUNS)
BY_NAME = {quota.name: quota for quota in QUOTAS}
