-- Tells what an owner has.
--
-- KEYS  1 open   2 ended   3 bytes
-- ARGV  1 the time, ms by this server's clock
-- Returns {open documents, bytes}

local own = own_keys(KEYS, 1)
look(own, ARGV[1])
local bytes = tonumber(redis.call('HGET', own.bytes, 'sum') or 0)
return {redis.call('ZCOUNT', own.open, '(' .. ARGV[1], '+inf'), bytes}
