-- Stores new documents, each once, if its owner may have it, and tells the other
-- replicas if they may wait for it.
--
-- keys  1 record   2 tombstone   those of parts that have their own   then, of a document that
--       somebody owns, where one server has all keys: open, ended, bytes
-- args  1 nonce  2 index field  3 expiry, ms by this server's clock, "0" for never
--       4 when to forget the tombstone, ms by this server's clock, "0" for none  5 owner
--       6 id  7 record  8 hour in which it expires  9 bytes of all parts  10 and 11 how many open documents, and
--       bytes, the owner may have  12 the time, ms by this server's clock  13 channel, "" for none  14 message to publish there
--       then the parts that have keys of their own
-- Returns {status, what the owner has and may not have more of: open documents, bytes}; status is
--   1 stored now or before by the same nonce   0 there is another document   -1 the owner has too much

local function create(keys, args)
  if not put(keys[1], args[7], args[3], 'NX') then
    local there = load(keys[1])
    return there.err and there or {knows(there, args[1]) and 1 or 0, 0, 0}
  end
  local apart = #args - 14
  local refusal = keys[3 + apart] and
    count_in(own_keys(keys, 3 + apart), args[6], args[2], args[3], args[8], args[9], args[10], args[11], args[12])
  if refusal then
    redis.call('DEL', keys[1])
    return refusal
  end
  for i = 1, apart do
    put(keys[2 + i], args[14 + i], args[3])
  end
  if args[4] ~= '0' then
    put(keys[2], args[5], args[4])
  end
  if args[13] ~= '' then
    redis.call('PUBLISH', args[13], args[14])
  end
  return {1, 0, 0}
end

local replies = each(create)
note_counts()
return replies
