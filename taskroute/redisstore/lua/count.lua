-- Counts new documents, for the scripts that begin with own.lua and this file.

local owners = {} -- what is counted in this run of the script, by own.bytes

-- Returns what is known of an owner and what is still to be noted: open documents, with
-- those that have expired; when the keys go; new entries, when the last of them expires,
-- and the bytes that one hour gets.
local function count_of(own, now)
  local count = owners[own.bytes]
  if not count then
    local ends, open = look(own, now), redis.call('ZCARD', own.open)
    count = {own = own, ends = ends, open = open, is_new = open == 0, is_exact = false, entries = {}, expires = '1', hour = false, bytes = 0}
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
    local bytes = (redis.call('HGET', count.own.bytes, 'sum') or 0) + count.bytes
    return bytes + size > tonumber(most) and bytes
  end
end

local function note_bytes(count)
  redis.call('HINCRBY', count.own.bytes, count.hour, count.bytes)
  redis.call('HINCRBY', count.own.bytes, 'sum', count.bytes)
  count.bytes = 0
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
  if is_open(index) then
    local entries = count.entries
    entries[#entries + 1], entries[#entries + 2] = score(expires), id
    count.open = count.open + 1
  else
    redis.call('ZADD', own.ended, score(expires), id)
    count.is_new = true
  end
  if count.hour and count.hour ~= hour then
    note_bytes(count)
  end
  count.hour, count.bytes = hour, count.bytes + size
  if later(expires, count.expires) then
    count.expires = expires
  end
end

-- Notes what was counted in, once for all documents of an owner.
local function note_counts()
  for _, count in pairs(owners) do
    if #count.entries > 0 then
      redis.call('ZADD', count.own.open, unpack(count.entries))
    end
    if count.hour then
      note_bytes(count)
      keep(count.own, count.ends, count.expires, count.is_new and {count.own.open, count.own.ended})
    end
  end
end
