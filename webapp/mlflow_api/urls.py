"""MLflow's API, under the paths that its clients ask for."""

from django.urls import path, re_path

from webapp.accounts.access import open_to_everybody
from webapp.mlflow_api import views
from webapp.mlflow_api.traces import NO_PLACE

app_name = "mlflow"
_STORE = "api/2.0/mlflow-artifacts/artifacts"
urlpatterns = [
    path(_STORE, open_to_everybody(views.list_files), name="list_files"),
    path(
        f"{_STORE}/{NO_PLACE}/<of>/<path:path>",
        open_to_everybody(views.trace_file),
        name="trace_file",
    ),
    path(f"{_STORE}/<path:path>", open_to_everybody(views.file), name="file"),
    path("api/<version>/mlflow/traces", open_to_everybody(views.traces), name="traces"),
    path("api/<version>/mlflow/traces/<path:path>", open_to_everybody(views.traces), name="trace"),
    path("api/2.0/mlflow/<path:method>", open_to_everybody(views.call), name="call"),
    re_path(r"^api/[23]\.0/", open_to_everybody(views.elsewhere), name="elsewhere"),
]
