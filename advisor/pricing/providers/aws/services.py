"""AWS's services for machines."""

from __future__ import annotations

from advisor.pricing.providers.provider import Service

NAME = "aws"
EC2, SAGEMAKER = "ec2", "sagemaker_training"
SAGEMAKER_PREFIX = "ml."
SERVICES = (
    # Linux is billed per second, at least 60 s for each start:
    # https://aws.amazon.com/about-aws/whats-new/2017/10/announcing-amazon-ec2-per-second-billing/
    Service(EC2, "EC2", minimum_seconds=60),
    Service(
        SAGEMAKER,
        "SageMaker training",
        type_prefix=SAGEMAKER_PREFIX,
        availability_from=EC2,
    ),
)
