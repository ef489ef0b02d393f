-- Counts changed documents, for the scripts that begin with own.lua and this file.

local function hour_of(expires)
  return expires == '0' and 'never' or string.format('%d', math.ceil(expires / HOUR))
end

local function add_bytes(own, hour, n)
  redis.call('HINCRBY', own.bytes, hour, n)
  redis.call('HINCRBY', own.bytes, 'sum', n)
end

-- Counts a document that was changed. grown is by how many bytes, and size how many
-- it has now. One that is in neither set was not counted before.
local function count_change(own, id, old_index, index, expired, expires, grown, size)
  local was, is = is_open(old_index), is_open(index)
  if was == is and expired == expires then
    if grown ~= 0 then
      add_bytes(own, hour_of(expires), grown)
    end
    return
  end
  local set, other = own.open, own.ended
  if not is then
    set, other = other, set
  end
  local moved = redis.call('ZREM', other, id) == 1
  local added = redis.call('ZADD', set, score(expires), id) == 1
  local before, hour = hour_of(expired), hour_of(expires)
  if not moved and added then
    add_bytes(own, hour, size)
  elseif before == hour then
    add_bytes(own, hour, grown)
  else
    add_bytes(own, before, grown - size)
    add_bytes(own, hour, size)
  end
  keep(own, redis.call('HGET', own.bytes, 'ends'), expires, {set})
end
