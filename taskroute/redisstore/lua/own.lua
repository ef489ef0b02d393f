-- What an owner has, for the scripts that begin with this file. Its keys share a slot:
--
--   open, ended  sorted sets: id -> expiry, "inf" for never
--   bytes        hash: hour -> bytes of the documents that expire in it, "never" for those that do not;
--                "sum" of them all; "tidied", the minute when what has expired was last dropped; "ends", when
--                the keys go, "0" for never
--
-- Times are in ms by this server's clock; an expiry of "0" is never. Each call of
-- Redis costs more than what it does here, so there are as few as can be.

local HOUR, MINUTE = 3600000, 60000
local KEEP = 10000 -- the keys live up to so much longer than what they tell of
local DROP = 1000 -- expired entries at a time

local function own_keys(first)
  return {open = KEYS[first], ended = KEYS[first + 1], bytes = KEYS[first + 2]}
end

-- An index field begins with 1 when its document is open.
local function is_open(index)
  return index:sub(1, 1) == '1'
end

local function hour_of(expires)
  return expires == '0' and 'never' or tostring(math.ceil(expires / HOUR))
end

-- Drops expired entries; returns whether that were all.
local function drop_expired(set, now)
  local ids = redis.call('ZRANGEBYSCORE', set, '-inf', now, 'LIMIT', 0, DROP)
  if #ids > 0 then
    redis.call('ZREM', set, unpack(ids))
  end
  return #ids < DROP
end

-- Drops what has expired, and sums up the hours that are left: what was added
-- wrongly to one is gone with it.
local function tidy(own, now)
  local sum, all = 0, redis.call('HGETALL', own.bytes)
  for i = 1, #all, 2 do
    local hour = tonumber(all[i])
    if hour and hour * HOUR <= now then
      redis.call('HDEL', own.bytes, all[i])
    elseif hour or all[i] == 'never' then
      sum = sum + all[i + 1]
    end
  end
  local open, ended = drop_expired(own.open, now), drop_expired(own.ended, now)
  redis.call('HSET', own.bytes, 'sum', sum, 'tidied', open and ended and math.floor(now / MINUTE) or 'not yet')
  return sum
end

-- Returns how many documents are open, the bytes of all, when the keys go, and the
-- bytes of the given hour.
local function usage(own, now, hour)
  local noted = redis.call('HMGET', own.bytes, 'sum', 'tidied', 'ends', hour)
  local sum = tonumber(noted[1] or 0)
  if noted[1] and noted[2] ~= tostring(math.floor(now / MINUTE)) then
    sum = tidy(own, now)
  end
  return redis.call('ZCOUNT', own.open, '(' .. now, '+inf'), sum, noted[3], tonumber(noted[4] or 0)
end

-- Has the keys live as long as a document that expires then. ends is when they go
-- so far; set, if not nil, one that may be new.
local function keep(own, ends, expires, set)
  local keys = {set}
  if not ends or (ends ~= '0' and (expires == '0' or tonumber(expires) > tonumber(ends))) then
    ends = expires == '0' and '0' or tostring(math.ceil(expires / KEEP) * KEEP)
    redis.call('HSET', own.bytes, 'ends', ends)
    keys = {own.open, own.ended, own.bytes}
  end
  for _, key in ipairs(keys) do
    if ends == '0' then
      redis.call('PERSIST', key)
    else
      redis.call('PEXPIREAT', key, ends)
    end
  end
end

local function add_bytes(own, hour, n)
  redis.call('HINCRBY', own.bytes, hour, n)
  redis.call('HINCRBY', own.bytes, 'sum', n)
end

local function enlist(set, id, expires)
  return redis.call('ZADD', set, expires == '0' and '+inf' or expires, id) == 1
end

-- Counts a new document in, unless its owner would have more than it may; a limit
-- of "0" is none. Returns whether it did, open documents and bytes before.
local function count_in(own, id, index, expires, size, max_open, max_bytes, now)
  local hour = hour_of(expires)
  local open, bytes, ends, in_hour = usage(own, now, hour)
  max_open, max_bytes = tonumber(max_open), tonumber(max_bytes)
  if (max_open > 0 and open >= max_open) or (max_bytes > 0 and bytes + size > max_bytes) then
    return false, open, bytes
  end
  local set = is_open(index) and own.open or own.ended
  enlist(set, id, expires)
  redis.call('HSET', own.bytes, 'sum', bytes + size, hour, in_hour + size)
  keep(own, ends, expires, open == 0 and set or nil)
  return true, open, bytes
end

-- Counts a document that was changed. grown is by how many bytes, and size tells
-- how many it has now. One that is in neither set was not counted before.
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
  local added = enlist(set, id, expires)
  local after = size()
  if moved or not added then
    add_bytes(own, hour_of(expired), grown - after)
  end
  add_bytes(own, hour_of(expires), after)
  keep(own, redis.call('HGET', own.bytes, 'ends'), expires, set)
end
