"""Secrets Manager, with one secret."""

import os


class client:  # noqa: N801 - as boto3 calls it
    def __init__(self, service, region_name):
        assert (service, region_name) == ("secretsmanager", "us-east-1")

    def get_secret_value(self, SecretId):  # noqa: N803 - as boto3 calls it
        assert SecretId == "trimtab-token"
        return {"SecretString": os.environ["SECRET_STRING"]}
