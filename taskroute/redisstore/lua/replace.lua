-- Writes over one revision of a document, once, and tells the other replicas.
--
-- KEYS  1 task hash   2 tombstone
-- ARGV  1 nonce  2 index fields (opaque)  3 expiry as the caller names it, "0" for never
--       4 the same by this server's clock, ms  5 when to forget the tombstone, ms by this
--       server's clock  6 owner  7 revision to write over  8 how many nonces to keep
--       9 channel  10 message to publish there  then pairs of part and bytes
-- Returns {status, index fields so far}; status is
--   1 written now   2 written before, by the same nonce   0 another revision is stored   -1 no document

local old = redis.call('HMGET', KEYS[1], 'rev', 'nonces', 'index', 'expires')
if not old[1] then
  return {-1, ''}
end
if (' ' .. old[2] .. ' '):find(' ' .. ARGV[1] .. ' ', 1, true) then
  return {2, ''}
end
if old[1] ~= ARGV[7] then
  return {0, ''}
end

local nonces, kept = {ARGV[1]}, tonumber(ARGV[8])
for nonce in old[2]:gmatch('%S+') do
  if #nonces < kept then
    nonces[#nonces + 1] = nonce
  end
end
redis.call('HSET', KEYS[1], 'nonces', table.concat(nonces, ' '), 'index', ARGV[2], 'expires', ARGV[3], unpack(ARGV, 11))
redis.call('HINCRBY', KEYS[1], 'rev', 1)

-- Only a changed expiry is set again: the clocks of two replicas may differ.
if old[4] ~= ARGV[3] then
  redis.call('DEL', KEYS[2])
  if ARGV[3] == '0' then
    redis.call('PERSIST', KEYS[1])
  else
    if tonumber(ARGV[5]) > tonumber(ARGV[4]) then
      redis.call('SET', KEYS[2], ARGV[6], 'PXAT', ARGV[5])
    end
    redis.call('PEXPIREAT', KEYS[1], ARGV[4])
  end
end
redis.call('PUBLISH', ARGV[9], ARGV[10])
return {1, old[3]}
