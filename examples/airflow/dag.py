"""A training as a task. Airflow 3, or 2 with its "standard" provider.

The connection `trimtab` has the service's URL as its host, and the token as its password.
"""

from airflow import DAG
from airflow.providers.standard.operators.bash import BashOperator

with DAG(dag_id="digits", schedule=None):
    BashOperator(
        task_id="train",
        bash_command="cd /opt/digits && exec trimtab run -- python train.py",
        append_env=True,
        retries=2,
        env={
            "TRIMTAB_URL": "{{ conn.trimtab.host }}",
            "TRIMTAB_TOKEN": "{{ conn.trimtab.password }}",
            "TRIMTAB_JOB": "{{ dag.dag_id }}",
            "TRIMTAB_TAGS": "airflow_task={{ ti.task_id }}",
            # A retry of the task is another attempt of the same run.
            "TRIMTAB_RUN": "airflow/{{ dag.dag_id }}/{{ ti.task_id }}/{{ run_id }}",
            "TRIMTAB_ATTEMPT": "{{ ti.try_number - 1 }}",
        },
    )
