"""The calls of MLflow's clients that give something else here than at MLflow's own server.

`docs/mlflow.md` shows these sentences. The comparison fails for a difference that isn't here, and
for one that is here and no longer exists.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """A difference.

    Attributes:
        area: the file of calls that it belongs to.
        here: what happens here, for the page of the manual.
        calls: texts of which each differing call has one.
        is_refused: the calls may raise here alone.
    """

    area: str
    here: str
    calls: tuple[str, ...]
    is_refused: bool = False


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "01_experiments",
        "the experiment `Default` exists once it has a run, and can't be deleted before",
        (
            "client.search_experiments(order_by=['name ASC'])",
            "client.search_experiments(filter_string='creation_time > 0'",
            "[each.name for each in client.search_experiments(max_results=2",
            "mlflow.search_experiments(order_by=['name'])",
            "client.search_experiments(order_by=['name'])",
            "client.search_experiments(view_type=ViewType.ALL",
            "client.delete_experiment('0')",
        ),
        is_refused=True,
    ),
    Difference(
        "01_experiments",
        "tags are those of the job: keys and values have at most 120 characters",
        ("len(client.get_experiment(first).tags['long'])",),
    ),
    Difference(
        "01_experiments",
        "a renamed experiment is found by its earlier name, too, which programs keep sending",
        ("client.get_experiment_by_name('first') #2",),
    ),
    Difference(
        "01_experiments",
        "renaming a deleted one has another error code",
        ("client.rename_experiment(gone, 'elsewhere')",),
    ),
    Difference(
        "01_experiments",
        "runs of a deleted experiment still take metrics, because they still cost",
        ("client.log_metric(lost.info.run_id, 'late', 1)",),
    ),
    Difference(
        "01_experiments",
        "tags may be sent with 8,000 characters, as to MLflow 3 (5,000 in 2.22)",
        ("client.set_experiment_tag(first, 'longest', 'x' * 6000)",),
    ),
    Difference(
        "02_runs",
        "a run without a name is named after its job and number",
        ("unnamed = client.create_run(experiment)",),
    ),
    Difference(
        "02_runs",
        "deleted runs still take parameters, metrics and tags, because they still cost",
        (
            "client.log_param(unnamed.info.run_id, 'late', 1)",
            "client.log_metric(unnamed.info.run_id, 'late', 1)",
            "client.set_tag(unnamed.info.run_id, 'late', '1')",
            "client.update_run(unnamed.info.run_id, name='late')",
        ),
    ),
    Difference(
        "03_logging",
        "a run with a value that was cut has the tag `trimtab.truncated`, which names it; tags "
        "that a run begins with are cut, too, and its name at 500 characters",
        (
            "client.get_run(run.info.run_id).data.tags.items() if key.startswith('t')}",
            "tagged = client.create_run(",
            "client.create_run(experiment, run_name='x' * 600)",
        ),
    ),
    Difference(
        "03_logging",
        "the history of a run that doesn't exist is an error, not an empty list",
        ("client.get_metric_history('0' * 32, 'loss')",),
        is_refused=True,
    ),
    Difference(
        "03_logging",
        "infinities stay infinite; MLflow's databases make them 1.8e308",
        (
            "data.metrics.get(key) for key in ('nan', 'inf', 'minus')}",
            "client.get_metric_history(run.info.run_id, 'inf')]",
        ),
    ),
    Difference(
        "04_searches",
        "filters know more: `IN` and `NOT IN` for tags and names, `IS NULL` for all, and `<` and "
        "`>` for texts",
        (
            "find(\"tags.Team IN ('vision', 'x')\")",
            "find(\"run_name IN ('run-1', 'run-2')\")",
            "find(\"attributes.run_name NOT IN ('run-1', 'run-2')\")",
            "find('metrics.loss IS NULL')",
            "find('params.lr IS NULL')",
            "find('tags.n IS NOT NULL')",
            "find(\"params.lr > '0.1'\")",
            "mlflow.search_runs([experiment], \"tags.n < '3'\")",
        ),
    ),
    Difference(
        "05_artifacts",
        "an empty file has the size 0, which MLflow's server leaves out",
        ("client.list_artifacts(run.info.run_id, 'texts')]",),
    ),
    Difference(
        "06_datasets",
        "filters on datasets and tags work together, at which the server of 2.22 fails",
        ("find(\"dataset.name = 'third' AND tags.mlflow.runName = 'with array'\")",),
    ),
    Difference(
        "07_models",
        "the metrics of a logged model are those of its run: the model itself lists none, and no "
        "search finds it by them",
        (
            "client.get_logged_model(named.model_id).metrics",
            "filter_string='metrics.acc > 0.5'",
        ),
    ),
    Difference(
        "07_models",
        "a model that is logged outside of a run gets a run of its own, of no duration",
        ("outside = mlflow.create_external_model('outside')",),
    ),
    Difference(
        "08_autolog",
        "a run without a name is named after its job and number",
        ("fitted = mlflow.last_active_run()", "best = mlflow.last_active_run()"),
    ),
    Difference(
        "09_registry",
        "a name has at most 256 characters and, as in MLflow 3, neither `/` nor `:`",
        (
            "client.create_registered_model('a/b')",
            "client.create_registered_model('a:b')",
            "client.search_registered_models(max_results=1)]",
            "client.create_registered_model('x' * 300)",
            "[each.name for each in client.search_registered_models()]",
            "client.search_registered_models(order_by=['name DESC'])",
            "client.search_registered_models(order_by=['last_updated_timestamp DESC'])",
            "[each.name for each in mlflow.search_registered_models()]",
        ),
        is_refused=True,
    ),
    Difference(
        "09_registry",
        "the run that a version names must exist",
        (
            "client.create_model_version('filled', source=f\"runs:/{'0' * 32}/model\"",
            "client.search_model_versions(\"name LIKE 'fil%'\")",
        ),
        is_refused=True,
    ),
    Difference(
        "09_registry",
        "tags have up to 100,000 characters, as in MLflow 3 (5,000 in 2.22)",
        ("client.set_registered_model_tag('empty', 'long', 'x' * 6000)",),
    ),
    Difference(
        "09_registry",
        "a deleted version takes its aliases along, as in MLflow 3",
        ("client.get_model_version_by_alias('prices', 'champion') #2",),
    ),
    Difference(
        "09_registry",
        "the tag `mlflow.modelVersions` of a logged model has what the client wrote",
        ("client.get_logged_model(logged.model_id).tags.get('mlflow.modelVersions')",),
    ),
    Difference(
        "10_traces",
        "a program that traces continues, and nothing of its traces is kept: the client warns "
        "once, the run has the tag `trimtab.traces`, searches find none, and what is said about "
        "a trace is left out",
        (
            "mlflow.search_traces(",
            "client.search_traces(",
            "client.delete_traces(",
        ),
    ),
    Difference(
        "10_traces",
        "`get_trace` finds none",
        ("mlflow.get_trace(trace_id)",),
        is_refused=True,
    ),
)
