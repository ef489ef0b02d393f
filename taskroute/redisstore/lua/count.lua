-- Counts an owner's open documents and drops those that have expired.
--
-- KEYS  1 open: id -> expiry, ms by this server's clock
-- Returns how many there are

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
return redis.call('ZCARD', KEYS[1])
