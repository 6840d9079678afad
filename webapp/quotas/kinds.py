"""The quotas of a workspace or a token, and where their limits are set.

A limit is the operator's: settings for all workspaces, `manage.py quota` for one of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.conf import settings
from django.template.defaultfilters import filesizeformat

from rules.wording import two_units
from webapp.accounts.models import Workspace

BYTES, SECONDS = "bytes", "seconds"
_ZERO = re.compile(r" 0 [hms]\Z")
ONE = {"runs": "run", "imports": "import"}


@dataclass(frozen=True)
class Quota:
    """Quota of a workspace or of each of its tokens.

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
        """Return the workspace's limit, 0 for none."""
        own = workspace.quotas.get(self.name)
        return int(getattr(settings, self.setting) if own is None else own)

    def words(self, amount: int) -> str:
        """Return the amount with its unit. Sizes are in powers of 1024, as on every page."""
        if self.unit == BYTES:
            return filesizeformat(amount).replace("\xa0", " ")
        if self.unit == SECONDS:
            return _ZERO.sub("", two_units(amount)) if amount >= 60 else f"{amount} s"
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
IMPORTS = Quota(
    "imports",
    "Imports in 24 hours",
    "imports",
    "WORKSPACE_IMPORTS_A_DAY",
    "Imports",
    "The workspace may begin {limit} in 24 hours, each attempt counted, and has done so.",
)
UNPACKED = Quota(
    "unpacked_bytes",
    "Unpacked by imports in 24 hours",
    BYTES,
    "WORKSPACE_UNPACKED_BYTES_A_DAY",
    "Imports",
    "The workspace's imports may unpack {limit} in 24 hours, and have done so.",
    "Import smaller parts of a recording. ",
)
IMPORT_CPU = Quota(
    "import_cpu_seconds",
    "CPU time of imports in 24 hours",
    SECONDS,
    "WORKSPACE_IMPORT_CPU_SECONDS_A_DAY",
    "Imports",
    "The workspace's imports may take {limit} of CPU time in 24 hours, and have done so.",
    "Import smaller parts of a recording. ",
)
QUOTAS = (
    UPLOADED,
    RUNS,
    SERIES,
    STORED,
    TOKEN_UPLOADED,
    TOKEN_RUNS,
    IMPORTS,
    UNPACKED,
    IMPORT_CPU,
)
OF_IMPORTS = (IMPORTS, UNPACKED, IMPORT_CPU)
"""The quotas that are counted in the database, so that they hold while Redis is down, too."""
BY_NAME = {quota.name: quota for quota in QUOTAS}
