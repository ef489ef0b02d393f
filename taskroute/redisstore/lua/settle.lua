-- Counts a changed document, after it was written to another server.
--
-- KEYS  1 open   2 ended   3 bytes
-- ARGV  1 id  2 index fields before  3 and now  4 expiry before, ms by this server's clock, "0" for never
--       5 and now  6 by how many bytes it has grown  7 bytes of all its parts
-- Returns  1

count_change(own_keys(KEYS, 1), ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]))
return 1
