-- Writes over revisions of documents, each once, and tells the other replicas.
--
-- keys  1 record   2 tombstone   3 what parts have as keys of their own, less their names   then, where
--       one server has all keys: 4 what holders hold, less their names; and of a document that somebody owns:
--       5 open   6 ended   7 bytes
-- args  1 nonce  2 index field  3 expiry, ms by this server's clock, "0" for never
--       4 when to forget the tombstone, ms by this server's clock, "0" for none  5 owner
--       6 id  7 revision to write over  8 how many nonces to keep  9 channel
--       10 message to publish there  11 rank of that revision  then of each part that is
--       written its name, after "+" when it is to have a key of its own, and its bytes
-- Returns {status}, and without those keys what is left to do: {status, the holder that holds it no more or nil,
-- index field so far, expiry so far, by how many bytes it has grown, bytes of all parts}. status is
--   1 written now   2 written before, by the same nonce   0 another revision is stored   -1 no document

-- Puts the given parts into the document, or beside it. Returns by how many bytes it
-- has grown.
local function put_parts(doc, keys, args)
  local grown = 0
  for i = 12, #args, 2 do
    local part, text, apart = args[i]:sub(-1), args[i + 1], #args[i] > 1
    local n, key = NUMBERS[part], keys[3] .. part
    grown = grown + #text - bytes(doc.size[n])
    if apart then
      put(key, text, args[3])
    elseif is_apart(doc.size[n]) then
      redis.call('DEL', key)
    end
    doc.size[n], doc.text[n] = apart and #text + APART or #text, apart and '' or text
  end
  for part, n in pairs(NUMBERS) do
    if is_apart(doc.size[n]) and doc.expires ~= args[3] then
      live_until(keys[3] .. part, args[3])
    end
  end
  return grown
end

local function with_nonce(nonces, nonce, most)
  local kept = {nonce}
  for old in nonces:gmatch('[^,]+') do
    if #kept == most then
      break
    end
    kept[#kept + 1] = old
  end
  return table.concat(kept, ',')
end

local function sum(doc)
  return bytes(doc.size[1]) + bytes(doc.size[2]) + bytes(doc.size[3]) + bytes(doc.size[4])
end

local function replace(keys, args)
  local doc = load(keys[1])
  if not doc then
    return {-1}
  end
  if doc.err then
    return doc
  end
  if knows(doc, args[1]) then
    return {2}
  end
  if doc.rev ~= tonumber(args[7]) then
    return {0}
  end

  local old_index, expired = doc.index, doc.expires
  local grown = put_parts(doc, keys, args)
  doc.rev, doc.nonces, doc.index, doc.expires = doc.rev + 1, with_nonce(doc.nonces, args[1], tonumber(args[8])), args[2], args[3]
  if expired == args[3] then
    redis.call('SET', keys[1], write(doc), 'KEEPTTL')
  else
    put(keys[1], write(doc), args[3])
    redis.call('DEL', keys[2])
    if args[4] ~= '0' then
      put(keys[2], args[5], args[4])
    end
  end
  redis.call('PUBLISH', args[9], args[10])

  local held, holds, size = holder_of(old_index), holder_of(args[2]), sum(doc)
  if held == holds then
    held = nil
  end
  if not keys[4] then
    return {1, held or false, old_index, expired, grown, size}
  end
  if held then
    unhold(keys[4] .. held, args[6], args[11])
  end
  if keys[5] then
    count_change(own_keys(keys, 5), args[6], old_index, args[2], expired, args[3], grown, size)
  end
  return {1}
end

return each(replace)
