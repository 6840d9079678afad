"""Every address of the service."""

from django.urls import include, path
from django.views.generic import RedirectView

from webapp.accounts.access import open_to_everybody
from webapp.api import (
    artefacts,
    buying,
    compare,
    export,
    failures,
    imports,
    job_runs,
    measurements,
    prometheus,
    read,
    recommendations,
    reference,
    rules,
    spend,
    trainings,
    usage,
    what_if,
    write,
)
from webapp.api.description import Api
from webapp.dashboard.views import report
from webapp.http import downloads, health, problems
from webapp.ingest import routes
from webapp.runs import resource

api = Api(
    title="Trimtab",
    version="1",
    docs_url=None,
    openapi_url="/openapi.json",
    urls_namespace="api",
    description="Uploads of agents, and everything that the pages show.",
)
api.add_router("", resource.router)
api.add_router("", routes.router)
api.add_router("", read.router)
api.add_router("", artefacts.router)
api.add_router("", compare.router)
api.add_router("", export.router)
api.add_router("", report.router)
api.add_router("", trainings.router)
api.add_router("", failures.router)
api.add_router("", job_runs.router)
api.add_router("", recommendations.router)
api.add_router("", measurements.router)
api.add_router("", spend.router)
api.add_router("", usage.router)
api.add_router("", prometheus.router)
api.add_router("", rules.router)
api.add_router("", buying.router)
api.add_router("", what_if.router)
api.add_router("", write.router)
api.add_router("", imports.router)
problems.handle_in(api)

handler404 = "webapp.dashboard.views.elsewhere.not_found"
handler500 = "webapp.http.trouble.broken"
urlpatterns = [
    path("healthz", open_to_everybody(health.alive), name="healthz"),
    path("readyz", open_to_everybody(health.ready), name="readyz"),
    path("agent/<str:wheel_name>", open_to_everybody(downloads.agent_wheel), name="agent_wheel"),
    path("docs/api/", open_to_everybody(reference.page_of(api)), name="api_reference"),
    path("docs/api/<slug:section>/", open_to_everybody(reference.page_of(api)), name="api_section"),
    path("problems/", open_to_everybody(problems.problem_page), name="problems"),
    path(
        "api/v1/docs",
        open_to_everybody(RedirectView.as_view(pattern_name="api_reference")),
        name="api_docs",
    ),
    path("api/v1/", api.urls),
    path("", include("webapp.mlflow_api.urls")),
    path("", include("webapp.accounts.urls")),
    path("", include("webapp.dashboard.urls")),
    path("", include("webapp.runs.urls")),
    path("", include("webapp.analysis.urls")),
    path("", include("webapp.advice.urls")),
    path("", include("webapp.directives.urls")),
    path("", include("webapp.sharing.urls")),
    path("", include("webapp.rulebook.urls")),
    path("", include("webapp.prices.urls")),
    path("", include("webapp.spend.urls")),
    path("", include("webapp.retention.urls")),
    path("", include("webapp.quotas.urls")),
    path("", include("webapp.imports.urls")),
    path("", include("webapp.background.urls")),
    path("", include("webapp.notify.urls")),
    path("", include("webapp.manual.urls")),
]
