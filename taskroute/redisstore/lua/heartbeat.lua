-- Renews a holder's lease, unless it has lapsed, tells it what others have changed,
-- and drops the entries of expired documents from what it holds.
--
-- KEYS  1 leases: holder -> deadline   2 gone: holder -> when it was buried
--       3 told: id -> when   4 and further: held: id -> rank
-- ARGV  1 holder   2 lease, ms   3 smallest rank that has not expired   4 how many to drop of each
--       5 how long to tell of the same change, ms
-- Returns {1 renewed or 0 lapsed, this server's time in ms, {ids that others have changed}}

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local deadline = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or '0')
-- Not above 0: index entries were written for it, but it was never heard of.
if (deadline > 0 and deadline <= now) or redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  return {0, now, {}}
end
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
-- The change itself is written after its entry here, and this reply may be lost:
-- so each is told until both can no longer matter.
local told = redis.call('ZRANGE', KEYS[3], 0, -1)
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - ARGV[5])
for i = 4, #KEYS do
  local expired = redis.call('ZRANGEBYSCORE', KEYS[i], '-inf', '(' .. ARGV[3], 'LIMIT', 0, ARGV[4])
  if #expired > 0 then
    redis.call('ZREM', KEYS[i], unpack(expired))
  end
end
return {1, now, told}
