-- How a document is stored, for the scripts that begin with this file: as a string of
--
--   revision, and the sizes of what follows, in 4 bytes each
--   expiry, nonces of the latest writes with commas between them, index field, parts s, i, o, r
--
-- The size of a part that is not there is ABSENT, and that of one with a key of its own is
-- APART more. Lua reads such numbers in one call, and those in a text slowly.

local HEAD, HEAD_SIZE = '>I4I4I4I4I4I4I4I4', 32
local ABSENT, APART = 4294967295, 2147483648
local NUMBERS = {s = 1, i = 2, o = 3, r = 4} -- of the parts

-- Returns the document under a key, taken apart; size and text are by the numbers of its
-- parts. Without one it returns false, and an error when what is there is none.
local function load(key)
  local value = redis.pcall('GET', key)
  if type(value) ~= 'string' then
    return value
  end
  if #value < HEAD_SIZE then
    return redis.error_reply('UNREADABLE record')
  end
  local rev, e, n, x, s, i, o, r, at = struct.unpack(HEAD, value)
  local doc = {
    rev = rev, expires = value:sub(at, at + e - 1), nonces = value:sub(at + e, at + e + n - 1),
    index = value:sub(at + e + n, at + e + n + x - 1), size = {s, i, o, r}, text = {'', '', '', ''},
  }
  at = at + e + n + x
  for part = 1, 4 do
    local size = doc.size[part]
    if size < APART then
      doc.text[part], at = value:sub(at, at + size - 1), at + size
    end
  end
  return at == #value + 1 and doc or redis.error_reply('UNREADABLE record')
end

-- The way back.
local function write(doc)
  local head = struct.pack(HEAD, doc.rev, #doc.expires, #doc.nonces, #doc.index, unpack(doc.size))
  return table.concat({head, doc.expires, doc.nonces, doc.index, unpack(doc.text)})
end

local function is_apart(size)
  return size >= APART and size ~= ABSENT
end

-- Returns how many bytes a part of that size has.
local function bytes(size)
  return size == ABSENT and 0 or size % APART
end

-- Tells whether one of the latest writes had that nonce.
local function knows(doc, nonce)
  return (',' .. doc.nonces .. ','):find(',' .. nonce .. ',', 1, true)
end

-- Sets a key until then, "0" for ever. Options are those of SET.
local function put(key, value, expires, ...)
  if expires == '0' then
    return redis.call('SET', key, value, ...)
  end
  return redis.call('SET', key, value, 'PXAT', expires, ...)
end
