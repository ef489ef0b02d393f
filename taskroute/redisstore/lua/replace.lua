-- Writes over one revision of a document, once, and tells the other replicas.
--
-- KEYS  1 task hash   2 tombstone   then, where one server has all keys: 3 what holders hold, less their names;
--       and of a document that somebody owns: 4 open   5 ended   6 bytes
-- ARGV  1 nonce  2 index fields  3 expiry, ms by this server's clock, "0" for never
--       4 when to forget the tombstone, ms by this server's clock  5 owner
--       6 id  7 revision to write over  8 how many nonces to keep  9 channel
--       10 message to publish there  11 rank of that revision  then pairs of part and bytes
-- Returns {status}, and without those keys what is left to do: {status, the holder that holds it no more or nil,
-- index fields so far, expiry so far, by how many bytes it has grown, bytes of all parts}. status is
--   1 written now   2 written before, by the same nonce   0 another revision is stored   -1 no document

local old = redis.call('HMGET', KEYS[1], 'rev', 'nonces', 'index')
if not old[1] then
  return {-1}
end
if (' ' .. old[2] .. ' '):find(' ' .. ARGV[1] .. ' ', 1, true) then
  return {2}
end
if old[1] ~= ARGV[7] then
  return {0}
end

local nonces, kept = {ARGV[1]}, tonumber(ARGV[8])
for nonce in old[2]:gmatch('%S+') do
  if #nonces < kept then
    nonces[#nonces + 1] = nonce
  end
end
local grown = 0
for i = 12, #ARGV, 2 do
  grown = grown + #ARGV[i + 1] - redis.call('HSTRLEN', KEYS[1], ARGV[i])
end
redis.call('HSET', KEYS[1], 'rev', old[1] + 1, 'nonces', table.concat(nonces, ' '), 'index', ARGV[2], unpack(ARGV, 12))

local expiry = redis.call('PEXPIRETIME', KEYS[1])
local expired = expiry > 0 and string.format('%.0f', expiry) or '0'
if expired ~= ARGV[3] then
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
redis.call('PUBLISH', ARGV[9], ARGV[10])

local function size()
  local n = 0
  for _, part in ipairs({'s', 'i', 'o', 'r'}) do
    n = n + redis.call('HSTRLEN', KEYS[1], part)
  end
  return n
end

local held, holds = holder_of(old[3]), holder_of(ARGV[2])
if held == holds then
  held = nil
end
if not KEYS[3] then
  return {1, held or false, old[3], expired, grown, size()}
end
if held then
  unhold(KEYS[3] .. held, ARGV[6], ARGV[11])
end
if KEYS[4] then
  count_change(own_keys(4), ARGV[6], old[3], ARGV[2], expired, ARGV[3], grown, size)
end
return {1}
