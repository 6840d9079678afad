#!/bin/sh
# The entry point. SageMaker passes the hyperparameters as arguments.
# If agent or token can't be had, the training runs all the same, unmeasured.
wheel="$TRIMTAB_URL/agent/trimtab-0.1.0-py3-none-any.whl"
if pip install --quiet "$wheel" && TRIMTAB_TOKEN=$(python trimtab_token.py); then
    export TRIMTAB_TOKEN
    exec trimtab run -- python train.py "$@"
fi
exec python train.py "$@"
