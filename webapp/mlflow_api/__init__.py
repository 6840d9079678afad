"""MLflow's tracking API: an unchanged MLflow program becomes a run."""
