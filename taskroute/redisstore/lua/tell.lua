-- Puts down that a holder is to hear of a document.
--
-- KEYS  1 told: id -> when
-- ARGV  1 id   2 how long to keep them for a holder that does not ask, ms
-- Returns  1

local time = redis.call('TIME')
redis.call('ZADD', KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
