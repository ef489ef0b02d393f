-- Ends a holder's lease.
--
-- KEYS  1 leases: holder -> deadline   2 gone: holder -> when it was buried
-- ARGV  1 holder
-- Returns  1

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('ZSCORE', KEYS[2], ARGV[1]) then
  return 1
end
local deadline = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or '0')
if deadline <= 0 or deadline > now then
  redis.call('ZADD', KEYS[1], now, ARGV[1])
end
return 1
