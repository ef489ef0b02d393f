-- Forgets the lease of a dead holder that holds nothing any more, but remembers
-- for a while that it is dead.
--
-- KEYS  1 leases: holder -> deadline   2 gone: holder -> when it was buried   3 held: id -> rank
-- ARGV  1 holder   2 how long to remember, ms
-- Returns  1 buried   0 it lives or holds something

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local deadline = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 'inf')
if deadline > now or redis.call('ZCARD', KEYS[3]) > 0 then
  return 0
end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[2], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[2])
return 1
