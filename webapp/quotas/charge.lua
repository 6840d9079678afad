-- Counts an upload, or nothing of it if it is beyond a limit.
--
-- KEYS: the storage, the new run, its last refusal; then the windows.
-- ARGV: the hour, bytes to store, the limit of the storage, 1 if the run is new; then of each window
-- its cost, limit and whether it counts runs (`run`).
-- Returns 0: counted; COUNTED_WITH_RUN; COUNTED_FAR_FROM_LIMITS; STORAGE_FULL: beyond the storage;
-- n: beyond the n-th window.
--
-- scripts.py defines the names in capitals.

local hour, stored = tonumber(ARGV[1]), tonumber(ARGV[2])
local function used(key)
    local known = redis.call('HMGET', key, 'summed', 'before', hour)
    if known[1] == ARGV[1] then return tonumber(known[2]) + tonumber(known[3] or 0) end
    local before, fields = 0, redis.call('HGETALL', key)
    for f = 1, #fields, 2 do
        local at = tonumber(fields[f])
        if at and (at <= hour - HOURS or at > hour + 1) then redis.call('HDEL', key, fields[f])
        elseif at and at ~= hour then before = before + tonumber(fields[f + 1]) end
    end
    redis.call('HSET', key, 'summed', hour, 'before', before)
    redis.call('EXPIRE', key, KEPT_SECONDS)
    return before + tonumber(known[3] or 0)
end
local counts_run = ARGV[4] == '1' and redis.call('EXISTS', KEYS[2]) == 0
local costs, is_far = {}, true
for i = 4, #KEYS do
    local at = 5 + (i - 4) * 3
    local cost, limit = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
    if ARGV[at + 2] == 'run' and not counts_run then cost = 0 end
    costs[i] = cost
    if limit > 0 and cost > 0 then
        local sum = used(KEYS[i]) + cost
        if sum > limit then return i - 3 end
        if sum > FAR * limit then is_far = false end
    end
end
local limit = tonumber(ARGV[3])
if limit > 0 and stored > 0 then
    local held = redis.call('HMGET', KEYS[1], 'counted', 'since')
    local used = tonumber(held[1] or 0) + tonumber(held[2] or 0)
    if used + stored > limit then return STORAGE_FULL end
    if used + stored > FAR * limit then is_far = false end
end
if stored > 0 then redis.call('HINCRBY', KEYS[1], 'since', stored) end
for i = 4, #KEYS do
    if costs[i] > 0 then
        local sum = redis.call('HINCRBY', KEYS[i], hour, costs[i])
        if sum == costs[i] then redis.call('EXPIRE', KEYS[i], KEPT_SECONDS) end
    end
end
if counts_run then redis.call('SET', KEYS[2], 1, 'EX', RUN_KNOWN_SECONDS) end
redis.call('DEL', KEYS[3])
if counts_run then return COUNTED_WITH_RUN end
return is_far and COUNTED_FAR_FROM_LIMITS or 0
