-- Counts new documents, for the scripts that begin with own.lua and this file.

local owners = {} -- what is counted in this run of the script, by own.bytes

-- Returns what is known of an owner, with what is still to be noted: open documents, with
-- those that have expired; when the keys go; and what is new, as bytes by hour and entries
-- by set.
local function count_of(own, now)
  local count = owners[own.bytes]
  if not count then
    count = {own = own, ends = look(own, now), open = redis.call('ZCARD', own.open), expires = '1', hours = {}, entries = {}}
    count.is_new = count.open == 0
    owners[own.bytes] = count
  end
  return count
end

-- Returns how many are open, when that is as many as the owner may have. Those that have
-- expired are told apart only then.
local function too_many(count, most, now)
  if most ~= '0' and count.open >= tonumber(most) then
    if not count.is_exact then
      count.open, count.is_exact = count.open - redis.call('ZCOUNT', count.own.open, '-inf', now), true
    end
    return count.open >= tonumber(most) and count.open
  end
end

-- Returns how many bytes there are, when with those of the document they are more than the
-- owner may have.
local function too_much(count, size, most)
  if most ~= '0' then
    if not count.bytes then
      count.bytes = tonumber(redis.call('HGET', count.own.bytes, 'sum') or 0)
      for _, bytes in pairs(count.hours) do
        count.bytes = count.bytes + bytes
      end
    end
    return count.bytes + size > tonumber(most) and count.bytes
  end
end

-- Counts a new document in, for note_counts to note, unless its owner would have more than
-- it may; a limit of "0" is none. Returns {-1, open documents, bytes} then.
local function count_in(own, id, index, expires, hour, size, max_open, max_bytes, now)
  local count = count_of(own, now)
  local open = too_many(count, max_open, now)
  local bytes = not open and too_much(count, size, max_bytes)
  if open or bytes then
    return {-1, open or 0, bytes or 0}
  end
  local set = own.ended
  if is_open(index) then
    set, count.open = own.open, count.open + 1
  end
  local entries = count.entries[set] or {}
  entries[#entries + 1], entries[#entries + 2] = score(expires), id
  count.entries[set] = entries
  count.bytes = count.bytes and count.bytes + size
  count.hours[hour] = count.hours[hour] and count.hours[hour] + size or size
  if later(expires, count.expires) then
    count.expires = expires
  end
end

-- Notes what was counted in, once for all documents of an owner.
local function note_counts()
  for _, count in pairs(owners) do
    local new = {}
    for set, entries in pairs(count.entries) do
      redis.call('ZADD', set, unpack(entries))
      new[#new + 1] = count.is_new and set or nil
    end
    for hour, bytes in pairs(count.hours) do
      redis.call('HINCRBY', count.own.bytes, hour, bytes)
      redis.call('HINCRBY', count.own.bytes, 'sum', bytes)
    end
    keep(count.own, count.ends, count.expires, new)
  end
end
