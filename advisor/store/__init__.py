"""Samples, steps and events: hot segments as uploaded, compacted Parquet, and reading both.

`index` says what is stored, `objects` holds the bytes, `reading` merges segments and chunks into
`NodeData`; `series` and `frames` are the two views on it, `compaction` the way from the one to the
other.
"""

import pyarrow as pa

# Arrow's own allocator keeps what it once took for each thread; a worker reads for minutes a day.
pa.set_memory_pool(pa.system_memory_pool())
