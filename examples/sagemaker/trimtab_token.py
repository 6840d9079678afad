"""Print the token from AWS Secrets Manager.

The role of the training job needs `secretsmanager:GetSecretValue` for this secret. A token in the
job's environment or hyperparameters would be visible to everybody who may describe the job.
"""

import os

import boto3

region = os.environ.get("AWS_REGION") or os.environ["TRAINING_JOB_ARN"].split(":")[3]
secrets = boto3.client("secretsmanager", region_name=region)
print(secrets.get_secret_value(SecretId=os.environ["SECRET_ID"])["SecretString"])
