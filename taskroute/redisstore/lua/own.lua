-- What an owner has, for the scripts that begin with this file. Its keys share a slot:
--
--   open, ended  sorted sets: id -> expiry, "inf" for never
--   bytes        hash: hour -> bytes of the documents that expire in it, "never" for those that do not;
--                "sum" of them all; "tidied", when what has expired was last dropped, but for its last
--                five digits; "ends", when the keys go, "0" for never
--
-- Times are in ms by this server's clock, as text; an expiry of "0" is never, and an hour
-- is that of its end. Each call of Redis costs more than what it does here, and each number
-- that is made of text, or text of it, nearly as much: so there are as few as can be.

local HOUR = 3600000
local KEEP = 10000 -- the keys live up to so much longer than what they tell of
local DROP = 1000 -- expired entries at a time

local function own_keys(keys, first)
  return {open = keys[first], ended = keys[first + 1], bytes = keys[first + 2]}
end

-- An index field begins with 1 when its document is open.
local function is_open(index)
  return index:byte() == 49
end

local function score(expires)
  return expires == '0' and '+inf' or expires
end

-- Tells whether the one expires after the other.
local function later(expires, other)
  return other ~= '0' and (expires == '0' or #expires > #other or (#expires == #other and expires > other))
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
    if hour and hour * HOUR <= tonumber(now) then
      redis.call('HDEL', own.bytes, all[i])
    elseif hour or all[i] == 'never' then
      sum = sum + all[i + 1]
    end
  end
  local open, ended = drop_expired(own.open, now), drop_expired(own.ended, now)
  redis.call('HSET', own.bytes, 'sum', sum, 'tidied', open and ended and now:sub(1, -6) or 'not yet')
end

-- Drops what has expired, if that was not done lately. Returns when the keys go.
local function look(own, now)
  local noted = redis.call('HMGET', own.bytes, 'tidied', 'ends')
  if noted[2] and noted[1] ~= now:sub(1, -6) then
    tidy(own, now)
  end
  return noted[2]
end

local function live_until(key, expires)
  if expires == '0' then
    redis.call('PERSIST', key)
  else
    redis.call('PEXPIREAT', key, expires)
  end
end

-- Has the keys live as long as a document that expires then. ends is when they go
-- so far; new, if not nil, are the sets that may be new.
local function keep(own, ends, expires, new)
  if not ends or later(expires, ends) then
    ends = expires == '0' and '0' or string.format('%d', math.ceil(expires / KEEP) * KEEP)
    redis.call('HSET', own.bytes, 'ends', ends)
    live_until(own.bytes, ends)
    new = {own.open, own.ended}
  end
  for i = 1, new and #new or 0 do
    live_until(new[i], ends)
  end
end
