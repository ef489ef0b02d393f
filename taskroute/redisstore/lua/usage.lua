-- Tells what an owner has.
--
-- KEYS  1 open   2 ended   3 bytes
-- ARGV  1 the time, ms by this server's clock
-- Returns {open documents, bytes}

local open, bytes = usage(own_keys(1), tonumber(ARGV[1]), 'never')
return {open, bytes}
