"""The work of imports: load, convert, save."""

from __future__ import annotations

import logging

from celery.exceptions import SoftTimeLimitExceeded

from advisor.importers.recording import NotImportableError
from advisor.importers.s3 import SourceAwayError
from webapp.background import claims
from webapp.http.problems import Problem
from webapp.imports import queue, scratch, waiting
from webapp.imports.converting import convert_upload
from webapp.imports.saving import save

logger = logging.getLogger(__name__)


def convert(artefact_id: int, **which: object) -> bool:
    """Convert one upload, if there is anything to do. Running it again changes nothing."""
    held = claims.claim(queue.KIND, artefact_id, **which)
    if held is None:
        return False
    try:
        imported = convert_upload(held)
        save(held, imported)
        scratch.remove(held.row)
    except waiting.PartsMissingError as error:
        waiting.put_back(held, error)
    except (NotImportableError, Problem) as error:
        claims.give_up(held, str(error))
        scratch.remove(held.row)
    except SourceAwayError as error:
        claims.fail(held, str(error))
    except SoftTimeLimitExceeded:
        logger.exception("import took too long", extra={"artefact": artefact_id})
        claims.give_up(held, f"The import was ended after {queue.MOST_SECONDS // 60} minutes.")
    except Exception as error:
        logger.exception("import failed", extra={"artefact": artefact_id})
        claims.fail(held, error)
    return True
