"""The API's URLs of a run and its files, which agents write (`ingest`) and others read (`api`).

A URL needs one router, and neither package may import the other.
"""

from ninja import Router

ADDRESS = "/runs/{run_id}"
ARTEFACT = "/runs/{run_id}/artefacts/{sha256}"
SHA256 = "^[0-9a-f]{64}$"
router = Router()
