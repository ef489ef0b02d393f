-- Who holds what, for the scripts that begin with this file. A set of held documents
-- is a sorted set, id -> rank, whose name ends with that of the holder.

-- Returns the holder in whose set a document of this index field is; nil: in none.
local function holder_of(index)
  local open, runnable, holder = index:match('^(%d)(%d) %d+ (.*)$')
  if open == '1' and (holder ~= '' or runnable == '1') then
    return holder
  end
end

-- Drops an entry that was written no later than the caller knows of. One that was
-- written since, by who took the document back, has a larger rank.
local function unhold(held, id, rank)
  local now = redis.call('ZSCORE', held, id)
  if now and tonumber(now) <= tonumber(rank) then
    return redis.call('ZREM', held, id)
  end
  return 0
end
