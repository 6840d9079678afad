"""Samples, steps and events: hot segments as uploaded, compacted Parquet, and reading both.

`index` lists what is stored, `objects` stores the bytes, and `reading` merges segments and chunks.
`series` and `frames` are two views of it. `compaction` turns segments into chunks.
"""

import os

# Arrow's own allocator takes 8 MB, and never returns memory taken by a thread, but a worker reads
# only minutes a day. Arrow reads this when it is imported.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

import pyarrow as pa

pa.set_memory_pool(pa.system_memory_pool())
