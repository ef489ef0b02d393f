-- Stores a new document, once, if its owner may have it, and tells the other
-- replicas if they may wait for it.
--
-- KEYS  1 task hash   2 tombstone   then, of a document that somebody owns, where one server has all keys:
--       3 open   4 ended   5 bytes
-- ARGV  1 nonce  2 index fields  3 expiry, ms by this server's clock, "0" for never
--       4 when to forget the tombstone, ms by this server's clock  5 owner
--       6 id  7 bytes of all parts  8 and 9 how many open documents, and bytes, the owner may have
--       10 the time, ms by this server's clock  11 channel, "" for none  12 message to publish there
--       then pairs of part and bytes
-- Returns {status, what the owner has: open documents, bytes}; status is
--   1 stored now or before by the same nonce   0 there is another document   -1 the owner has too much

local nonces = redis.call('HGET', KEYS[1], 'nonces')
if nonces then
  local known = (' ' .. nonces .. ' '):find(' ' .. ARGV[1] .. ' ', 1, true)
  return {known and 1 or 0, 0, 0}
end
if KEYS[3] then
  local may, open, bytes = count_in(own_keys(3), ARGV[6], ARGV[2], ARGV[3], ARGV[7], ARGV[8], ARGV[9], tonumber(ARGV[10]))
  if not may then
    return {-1, open, bytes}
  end
end
redis.call('HSET', KEYS[1], 'rev', 1, 'nonces', ARGV[1], 'index', ARGV[2], unpack(ARGV, 13))
if ARGV[3] ~= '0' then
  redis.call('PEXPIREAT', KEYS[1], ARGV[3])
  if tonumber(ARGV[4]) > tonumber(ARGV[3]) then
    redis.call('SET', KEYS[2], ARGV[5], 'PXAT', ARGV[4])
  end
end
if ARGV[11] ~= '' then
  redis.call('PUBLISH', ARGV[11], ARGV[12])
end
return {1, 0, 0}
