-- Writes over one revision of a document, once, and tells the other replicas.
--
-- KEYS  1 task hash   2 tombstone
-- ARGV  1 nonce  2 index fields (opaque)  3 expiry, ms by this server's clock, "0" for never
--       4 when to forget the tombstone, ms by this server's clock  5 owner
--       6 revision to write over  7 how many nonces to keep  8 channel
--       9 message to publish there  then pairs of part and bytes
-- Returns {status, index fields so far}; status is
--   1 written now   2 written before, by the same nonce   0 another revision is stored   -1 no document

local old = redis.call('HMGET', KEYS[1], 'rev', 'nonces', 'index', 'expires')
if not old[1] then
  return {-1, ''}
end
if (' ' .. old[2] .. ' '):find(' ' .. ARGV[1] .. ' ', 1, true) then
  return {2, ''}
end
if old[1] ~= ARGV[6] then
  return {0, ''}
end

local nonces, kept = {ARGV[1]}, tonumber(ARGV[7])
for nonce in old[2]:gmatch('%S+') do
  if #nonces < kept then
    nonces[#nonces + 1] = nonce
  end
end
redis.call('HSET', KEYS[1], 'nonces', table.concat(nonces, ' '), 'index', ARGV[2], 'expires', ARGV[3], unpack(ARGV, 10))
redis.call('HINCRBY', KEYS[1], 'rev', 1)

if old[4] ~= ARGV[3] then
  redis.call('DEL', KEYS[2])
  if ARGV[3] == '0' then
    redis.call('PERSIST', KEYS[1])
  else
    if tonumber(ARGV[4]) > tonumber(ARGV[3]) then
      redis.call('SET', KEYS[2], ARGV[5], 'PXAT', ARGV[4])
    end
    redis.call('PEXPIREAT', KEYS[1], ARGV[3])
  end
end
redis.call('PUBLISH', ARGV[8], ARGV[9])
return {1, old[3]}
