"""The API's address of a run: agents write it (`ingest`), everybody else reads it (`api`).

One address needs one router, and neither of the two may import the other.
"""

from ninja import Router

ADDRESS = "/runs/{run_id}"
router = Router()
