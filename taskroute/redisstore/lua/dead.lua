-- Lists the holders whose leases have lapsed and that may still hold something.
--
-- KEYS  1 leases: holder -> deadline
-- ARGV  1 how many at most
-- Returns {this server's time in ms, holder, deadline, holder, deadline, ...}

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local dead = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'WITHSCORES', 'LIMIT', 0, ARGV[1])
table.insert(dead, 1, now)
return dead
