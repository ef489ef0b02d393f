-- How a document is stored, for the scripts that begin with this file: as a string,
--
--   revision expiry nonces sizes\n  and then the index field and the parts s, i, o, r
--
-- The nonces, of the latest writes, have commas between them. The sizes are those of
-- what follows; "-" is a part that is not there, and one after "+" has a key of its own.

local PARTS = {'s', 'i', 'o', 'r'}
local UNREADABLE = redis.error_reply('UNREADABLE record')

-- Returns the document under a key, taken apart; size, text and apart are by the names of
-- parts. Without one it returns false, and an error when what is there is none.
local function load(key)
  local value = redis.pcall('GET', key)
  if type(value) ~= 'string' then
    return value
  end
  local rev, expires, nonces, index, sizes, at = value:match('^(%d+) (%d+) (%S+) (%d+)([^\n]*)\n()')
  if not rev then
    return UNREADABLE
  end
  local doc = {rev = rev, expires = expires, nonces = nonces, index = value:sub(at, at + index - 1), size = {}, text = {}, apart = {}}
  local n, at = 0, at + index
  for plus, size in sizes:gmatch(' (%+?)(%d*)') do
    n = n + 1
    local part = PARTS[n] or n
    if plus ~= '' then
      doc.size[part], doc.apart[part] = tonumber(size), true
    elseif size ~= '' then
      doc.size[part], doc.text[part] = tonumber(size), value:sub(at, at + size - 1)
      at = at + size
    end
  end
  if n ~= #PARTS or at ~= #value + 1 then
    return UNREADABLE
  end
  return doc
end

-- The way back.
local function write(doc)
  local head, body = {doc.rev, doc.expires, doc.nonces, #doc.index}, {doc.index}
  for _, part in ipairs(PARTS) do
    head[#head + 1] = (doc.apart[part] and '+' or '') .. (doc.size[part] or '-')
    body[#body + 1] = doc.text[part]
  end
  return table.concat(head, ' ') .. '\n' .. table.concat(body)
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
