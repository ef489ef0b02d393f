-- Drops index entries that were written no later than the caller knows of. One
-- that was written since, by who took the document back, has a larger rank.
--
-- KEYS  1 held: id -> rank
-- ARGV  pairs of id and rank
-- Returns how many were dropped

local dropped = 0
for i = 1, #ARGV, 2 do
  local rank = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if rank and tonumber(rank) <= tonumber(ARGV[i + 1]) then
    dropped = dropped + redis.call('ZREM', KEYS[1], ARGV[i])
  end
end
return dropped
