from django.apps import AppConfig


class MlflowApiConfig(AppConfig):
    name = "webapp.mlflow_api"
    label = "mlflow_api"
