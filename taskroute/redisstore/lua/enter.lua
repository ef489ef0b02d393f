-- Counts a new document as its owner's, if it may have it, before the document is
-- written to another server. It may be run twice.
--
-- KEYS  1 open   2 ended   3 bytes
-- ARGV  1 id  2 index fields  3 expiry, ms by this server's clock, "0" for never  4 hour in which it expires
--       5 bytes of all parts  6 and 7 how many open documents, and bytes, the owner may have
--       8 the time, ms by this server's clock
-- Returns as create.lua

local own = own_keys(KEYS, 1)
if redis.call('ZSCORE', own.open, ARGV[1]) or redis.call('ZSCORE', own.ended, ARGV[1]) then
  return {1, 0, 0}
end
local refusal = count_in(own, unpack(ARGV))
note_counts()
return refusal or {1, 0, 0}
