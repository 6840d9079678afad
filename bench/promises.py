"""The promises of Trimtab, and the benchmark that measures each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Promise:
    key: str
    text: str
    bench: str
    """The module in `bench`."""
    arguments: tuple[str, ...] = ()


OVERHEAD = ("--minutes", "30")
BROKEN = (
    "Parts killed or stopped, a full disk, a full Redis, clocks that jump, networks that break or "
    "lie: nothing that was acknowledged is lost or doubled, no cent is wrong, each mail is sent "
    "once"
)

PROMISES = (
    Promise(
        "agent",
        "The agent on a CPU host, a sample each 0.5 s, uploading over HTTPS: at most "
        "10 CPU-seconds an hour and 30 MiB",
        "agent_overhead",
        OVERHEAD,
    ),
    Promise(
        "agent_gpu",
        "The agent with one GPU, at the prices of a real driver's queries: at most 18 CPU-seconds "
        "an hour and 46 MiB",
        "agent_overhead",
        OVERHEAD,
    ),
    Promise(
        "agent_gpus",
        "The same with 8 GPUs: at most 70 CPU-seconds an hour and 50 MiB",
        "agent_overhead",
        OVERHEAD,
    ),
    Promise(
        "agent_loaders",
        "The agent of a training with 200 data-loader processes: at most 20 CPU-seconds an hour",
        "agent_overhead",
        OVERHEAD,
    ),
    Promise(
        "agent_real_gpu",
        "The agent with one real GPU, idle and busy: at most 18 CPU-seconds an hour and 46 MiB, "
        "compiled or not",
        "on_a_gpu",
    ),
    Promise(
        "agent_attached",
        "A training on a GPU, the agent attached and detached in turn: steps less than 0.3 % "
        "longer",
        "on_a_gpu",
    ),
    Promise(
        "wire",
        "Upload of a recorded busy trace, headers counted: at most 3.2 bytes a sample",
        "agent_overhead",
        OVERHEAD,
    ),
    Promise(
        "hook",
        "The hook inside the training: at most 1 µs an event, training time within noise",
        "hook_overhead",
    ),
    Promise("stored", "Stored after compaction: at most 2.5 bytes a sample", "store"),
    Promise(
        "longer_run",
        "Reading a chart of 6 hours takes at most 4.5 times as long as of 1 hour",
        "store",
    ),
    Promise(
        "hot_hour",
        "Reading a chart of an hour that isn't compacted: at most twice decoding its uploads",
        "store",
    ),
    Promise(
        "charts",
        "All charts of a run's page, for 7 days, 8 GPUs, or 8 live nodes: below 250 ms of the "
        "server's CPU, growth below 1.3 times from 1 h to 7 d",
        "charts",
    ),
    Promise(
        "ingest",
        "Upload of 10 s segments of 100 series: at least 60 times (SQLite) and 40 times "
        "(PostgreSQL) MLflow's samples per CPU-second of the server, 25 times with the worker",
        "fleet",
    ),
    Promise(
        "upload",
        "Upload of a segment of 2,000 samples: at most 2.5 ms of the server's CPU",
        "fleet",
    ),
    Promise(
        "fleet",
        "500 nodes x 100 series x 2 Hz on 2 cores for 5 min: p99 below 1 s, judged within 30 s",
        "fleet",
    ),
    Promise(
        "many_segments",
        "Queries that are made all the time on the rows of segments, with 10 million of them in "
        "PostgreSQL: at most twice as long as with 100,000, or below 50 ms",
        "many_segments",
    ),
    Promise("rules_speed", "All rules on 27 hours: at least 20 times smdebug's speed", "rules"),
    Promise("rules_memory", "All rules on 27 hours: at most 1/5 of smdebug's memory", "rules"),
    Promise("rules_growth", "20 times the data: at most 22 times as long", "rules"),
    Promise(
        "imports_speed",
        "A SageMaker job of 27 hours from its raw files to all verdicts: at least 6 times the "
        "speed at which smdebug reads it",
        "imports",
    ),
    Promise("imports_memory", "The same: at most 600 MB of memory", "imports"),
    Promise(
        "rules_verdicts",
        "Each rule on labelled runs and near misses: precision and recall at least 0.97",
        "rules_scenarios",
    ),
    Promise(
        "rules_healthy",
        "200 healthy runs of thirteen kinds, whole and while they are going: at most 2 findings, "
        "and at most 5 % of their cost shown as waste",
        "rules_scenarios",
    ),
    Promise(
        "rules_mixtures",
        "300 runs of 20 s to 2 h with two to four causes of waste: the most expensive first in "
        "95 %, as finding and as advice, no label claimed beyond its time, at most 10 % beyond the "
        "truth in 95 %",
        "rules_scenarios",
    ),
    Promise(
        "first_finding",
        "First finding: within 30 s of the evidence, uploads included, beside 500 nodes that "
        "began at once",
        "live_findings",
    ),
    Promise(
        "looks",
        "A look at a running run of 100 series every 0.5 s: at most 20 ms of CPU a node",
        "looks",
    ),
    Promise(
        "false_alarms",
        "Successive runs, 2 % variation: at most 1 % of quiet runs are called, 2 to 10 % of quiet "
        "histories of 60 runs are alarmed, and +10 % is found in 80 % after 4 runs, 95 % after 8",
        "ladder",
    ),
    Promise(
        "savings",
        "Realised savings of 1,000 simulated jobs that alternate, relapse, move on or choose "
        "their own way: within 5 % of the truth for 95 %, above its bound of 99 % for at most "
        "1 %, signed right, exact to the nano-dollar, and the same in any order of arrival",
        "savings",
    ),
    Promise(
        "pages",
        "Each page of a workspace with a job of 10,000 runs: below 0.2 CPU-seconds",
        "history",
    ),
    Promise(
        "every_page",
        "Every page of a workspace with 1,000 jobs and 20,000 runs, one of 8 GPUs for 24 h: below "
        "0.15 CPU-seconds and at most 25 queries; a CSV of all of it within a second",
        "pages",
    ),
    Promise(
        "first_chart",
        "The first chart of that run's page, in Chromium on an idle machine: drawn within a second",
        "first_chart",
    ),
    Promise(
        "hostile_bodies",
        "A hostile upload: refused within 1 s, at most 100 MB more memory",
        "hostile",
    ),
    Promise(
        "hostile_inputs",
        "1,000,000 hostile inputs: no decoder, importer or filter fails, hangs or grows",
        "fuzz",
        ("--inputs", "1000000"),
    ),
    Promise(
        "hostile_requests",
        "100,000 hostile requests to a started service, with MLflow's methods and imports among "
        "them: no 5xx, no hang, no growth; what was accepted can be read",
        "fuzz",
        ("--inputs", "0", "--http", "100000"),
    ),
    Promise(
        "slow_clients",
        "500 connections at a byte a second and 200 slow uploads: all uploads are accepted, and "
        "pages answer within 0.5 s",
        "slow_sockets",
    ),
    Promise(
        "neighbours",
        "Runs of 3 years, 5,000 GPUs, 10,000 series or 300 nodes: another workspace's finding "
        "appears within 30 s, and no process of the worker needs more than 600 MiB",
        "bounds",
    ),
    Promise(
        "hammered",
        "Two workspaces hammer every importer, search and page: the 99th percentile of a third "
        "one's health checks is below 1 s, its finding appears and its import begins within 30 s",
        "hammered",
    ),
    Promise(
        "nothing_lost",
        f"{BROKEN} (SQLite)",
        "faults",
        ("--schedules", "200"),
    ),
    Promise(
        "nothing_lost_postgres",
        f"{BROKEN} (PostgreSQL, Redis and S3)",
        "faults",
        ("--schedules", "100", "--seed", "1000", "--database", "postgres", "--objects", "s3"),
    ),
    Promise(
        "power_loss",
        "Power lost at random points, so that only flushed bytes survive: nothing that was "
        "acknowledged is lost or doubled, and no agent is asked for it again",
        "faults",
        ("--schedules", "50", "--seed", "2000", "--objects", "folder", "--only", "power loss"),
    ),
    Promise(
        "working_workers",
        "50 workers killed while they analyse and 50 while they import: each run is there once, "
        "costs what it does undisturbed, and no scratch files are left",
        "kills",
    ),
    Promise(
        "upgrades",
        "The data folder of each release, opened by this version: it answers the same, and takes "
        "what agents send during the migrations",
        "upgrades",
    ),
    Promise(
        "backups",
        "A backup while 200 nodes write, restored beside it: all that was acknowledged before is "
        "there once and costs the same, and agents can go on",
        "backups",
    ),
    Promise(
        "start",
        "The service (web, worker, beat, Redis) on an idle machine: ready within 5 s, at most "
        "450 MB a minute after that",
        "start",
    ),
)
