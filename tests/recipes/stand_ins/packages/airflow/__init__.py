class DAG:
    def __init__(self, dag_id, schedule):
        self.dag_id = dag_id

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass
