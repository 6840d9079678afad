"""Machines that could run a workload, with predicted time and cost."""
