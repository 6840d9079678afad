"""The API's addresses of a run and its files: agents write them (`ingest`), others read (`api`).

One address needs one router, and neither of the two may import the other.
"""

from ninja import Router

ADDRESS = "/runs/{run_id}"
ARTEFACT = "/runs/{run_id}/artefacts/{sha256}"
SHA256 = "^[0-9a-f]{64}$"
router = Router()
