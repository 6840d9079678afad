"""Django's SQLite, whose file only its user can read from the first moment on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.db.backends.sqlite3 import base

from webapp import private_files


class DatabaseWrapper(base.DatabaseWrapper):
    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Create the file before SQLite does, which would use the umask for it and for the files
        beside it.
        """
        path = Path(str(conn_params["database"]))
        is_in_memory = path.name.startswith(":") or str(path).startswith("file:")
        if not is_in_memory and path.parent.is_dir() and not path.exists():
            private_files.make_file(path)
        return super().get_new_connection(conn_params)
