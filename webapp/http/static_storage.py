"""Static files under names that hold their content's hash, imports between modules included."""

from __future__ import annotations

from whitenoise.storage import CompressedManifestStaticFilesStorage


class HashedModulesStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """Static files, among which no browser mixes an old module with a new one after an update."""

    support_js_module_import_aggregation = True
