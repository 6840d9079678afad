-- Adds series to those of the current hour; returns 1 and adds none if some are new and the limit
-- is reached. Series of the last 24 hours always pass.
--
-- KEYS: a place to try, then a HyperLogLog an hour, the current one first.
-- ARGV: the limit, the series.
--
-- scripts.py defines the names in capitals.

local buckets = {}
for i = 2, #KEYS do buckets[i - 1] = KEYS[i] end
local before = redis.call('PFCOUNT', unpack(buckets))
redis.call('PFADD', KEYS[1], unpack(ARGV, 2))
local after = redis.call('PFCOUNT', KEYS[1], unpack(buckets))
redis.call('DEL', KEYS[1])
local limit = tonumber(ARGV[1])
if limit > 0 and after > limit and after > before then return 1 end
redis.call('PFADD', KEYS[2], unpack(ARGV, 2))
redis.call('EXPIRE', KEYS[2], KEPT_SECONDS)
return 0
