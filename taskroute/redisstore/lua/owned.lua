-- Pages through an owner's documents that have not expired, in order of expiry.
--
-- KEYS  1 open or ended: id -> expiry
-- ARGV  1 the time, ms by this server's clock  2 how many
--       3 expiry, and 4 id, of the last one of the page before; "" for the first page
-- Returns {id, expiry, id, expiry, ...}

local first = redis.call('ZCOUNT', KEYS[1], '-inf', ARGV[1])
if ARGV[4] ~= '' then
  local last = redis.call('ZRANK', KEYS[1], ARGV[4])
  first = math.max(first, last and last + 1 or redis.call('ZCOUNT', KEYS[1], '-inf', '(' .. ARGV[3]))
end
return redis.call('ZRANGE', KEYS[1], first, first + ARGV[2] - 1, 'WITHSCORES')
