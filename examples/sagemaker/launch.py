"""Start the training: `python launch.py`. Needs the SageMaker Python SDK, version 2."""

from sagemaker.pytorch import PyTorch

SPOT = True

estimator = PyTorch(
    base_job_name="digits",
    entry_point="train.sh",
    source_dir=".",
    role="arn:aws:iam::111122223333:role/training",
    framework_version="2.6",
    py_version="py312",
    instance_type="ml.g5.2xlarge",
    instance_count=1,
    use_spot_instances=SPOT,
    max_run=24 * 3600,
    max_wait=36 * 3600 if SPOT else None,
    hyperparameters={"epochs": 10},
    environment={
        "TRIMTAB_URL": "https://trimtab.example.com",
        "SECRET_ID": "trimtab-token",
        "TRIMTAB_JOB": "digits",
        # The container can't know it.
        "TRIMTAB_PURCHASE_OPTION": "spot" if SPOT else "on_demand",
    },
)
estimator.fit({"training": "s3://example-bucket/digits/"}, wait=False)
