#!/bin/sh
# One machine:      TRIMTAB_TOKEN=... PROCESSES=8 ./train.sh
# Several machines: also NODES, HEAD (host name of one of them) and TRIMTAB_RUN, the same on each.
# TRIMTAB_RUN must be new for each run, e.g. digits-2026-11-23-1.
set -eu
export TRIMTAB_URL="${TRIMTAB_URL:-https://trimtab.example.com}"
export TRIMTAB_JOB=digits

if [ "${NODES:-1}" -eq 1 ]; then
    exec trimtab run -- torchrun --standalone --nproc-per-node="$PROCESSES" train.py "$@"
fi
exec trimtab run -- torchrun --nnodes="$NODES" --nproc-per-node="$PROCESSES" \
    --rdzv-backend=c10d --rdzv-endpoint="$HEAD:29500" --rdzv-id="$TRIMTAB_RUN" train.py "$@"
