-- Stores a new document, once, and tells the other replicas if they may wait for it.
--
-- KEYS  1 task hash   2 tombstone
-- ARGV  1 nonce  2 index fields (opaque)  3 expiry, ms by this server's clock, "0" for never
--       4 when to forget the tombstone, ms by this server's clock  5 owner
--       6 channel, "" for none  7 message to publish there  then pairs of part and bytes
-- Returns  1 stored now or before by the same nonce   0 there is another document

local nonces = redis.call('HGET', KEYS[1], 'nonces')
if nonces then
  local known = (' ' .. nonces .. ' '):find(' ' .. ARGV[1] .. ' ', 1, true)
  return known and 1 or 0
end
redis.call('HSET', KEYS[1], 'rev', 1, 'nonces', ARGV[1], 'index', ARGV[2], 'expires', ARGV[3], unpack(ARGV, 8))
if ARGV[3] ~= '0' then
  redis.call('PEXPIREAT', KEYS[1], ARGV[3])
  if tonumber(ARGV[4]) > tonumber(ARGV[3]) then
    redis.call('SET', KEYS[2], ARGV[5], 'PXAT', ARGV[4])
  end
end
if ARGV[6] ~= '' then
  redis.call('PUBLISH', ARGV[6], ARGV[7])
end
return 1
