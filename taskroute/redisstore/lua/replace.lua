-- Writes over revisions of documents, each once, and tells the other replicas.
--
-- keys  1 record   2 tombstone   3 to 6 what its parts would have as keys of their own   then, where one
--       server has all keys: 7 what holders hold, less their names; and of a document that somebody owns:
--       8 open   9 ended   10 bytes
-- args  1 nonce  2 index field  3 expiry, ms by this server's clock, "0" for never
--       4 when to forget the tombstone, ms by this server's clock, "0" for none  5 owner
--       6 id  7 revision to write over  8 how many nonces to keep  9 channel
--       10 message to publish there  11 rank of that revision  12 bytes of a part that stays in the record
--       then pairs of part and bytes
-- Returns {status}, and without those keys what is left to do: {status, the holder that holds it no more or nil,
-- index field so far, expiry so far, by how many bytes it has grown, bytes of all parts}. status is
--   1 written now   2 written before, by the same nonce   0 another revision is stored   -1 no document

-- Puts the given parts into the document, or beside it where they are large. Returns by
-- how many bytes it has grown.
local function put_parts(doc, keys, args)
  local given, grown = {}, 0
  for i = 13, #args, 2 do
    given[args[i]] = args[i + 1]
  end
  for n, part in ipairs(PARTS) do
    local key, text, was_apart = keys[2 + n], given[part], doc.apart[part]
    if text then
      grown = grown + #text - (doc.size[part] or 0)
      doc.size[part], doc.apart[part] = #text, #text > tonumber(args[12])
      doc.text[part] = not doc.apart[part] and text or nil
      if doc.apart[part] then
        put(key, text, args[3])
      elseif was_apart then
        redis.call('DEL', key)
      end
    elseif was_apart and doc.expires ~= args[3] then
      live_until(key, args[3])
    end
  end
  return grown
end

local function with_nonce(nonces, nonce, most)
  local kept = {nonce}
  for old in nonces:gmatch('[^,]+') do
    if #kept < tonumber(most) then
      kept[#kept + 1] = old
    end
  end
  return table.concat(kept, ',')
end

local function sum(sizes)
  local n = 0
  for _, size in pairs(sizes) do
    n = n + size
  end
  return n
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
  if doc.rev ~= args[7] then
    return {0}
  end

  local old_index, expired = doc.index, doc.expires
  local grown = put_parts(doc, keys, args)
  doc.rev, doc.nonces, doc.index, doc.expires = doc.rev + 1, with_nonce(doc.nonces, args[1], args[8]), args[2], args[3]
  put(keys[1], write(doc), args[3])
  if expired ~= args[3] then
    redis.call('DEL', keys[2])
    if args[4] ~= '0' then
      put(keys[2], args[5], args[4])
    end
  end
  redis.call('PUBLISH', args[9], args[10])

  local held, holds, size = holder_of(old_index), holder_of(args[2]), sum(doc.size)
  if held == holds then
    held = nil
  end
  if not keys[7] then
    return {1, held or false, old_index, expired, grown, size}
  end
  if held then
    unhold(keys[7] .. held, args[6], args[11])
  end
  if keys[8] then
    count_change(own_keys(keys, 8), args[6], old_index, args[2], expired, args[3], grown, size)
  end
  return {1}
end

return each(replace)
