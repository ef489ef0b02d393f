-- Counts a new document as its owner's, if it may have it, before the document is
-- written to another server. It may be run twice.
--
-- KEYS  1 open   2 ended   3 bytes
-- ARGV  1 id  2 index fields  3 expiry, ms by this server's clock, "0" for never
--       4 bytes of all parts  5 and 6 how many open documents, and bytes, the owner may have
--       7 the time, ms by this server's clock
-- Returns {1 counted, or -1 the owner has too much, open documents, bytes}

local own = own_keys(1)
if redis.call('ZSCORE', own.open, ARGV[1]) or redis.call('ZSCORE', own.ended, ARGV[1]) then
  return {1, 0, 0}
end
local may, open, bytes = count_in(own, ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7]))
return {may and 1 or -1, open, bytes}
