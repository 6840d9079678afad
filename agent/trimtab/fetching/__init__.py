"""Saves what a Prometheus or MLflow server answers, for `trimtab import`."""
