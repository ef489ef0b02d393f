-- Drops stale entries from what a holder holds.
--
-- KEYS  1 held: id -> rank
-- ARGV  pairs of id and rank
-- Returns how many were dropped

local dropped = 0
for i = 1, #ARGV, 2 do
  dropped = dropped + unhold(KEYS[1], ARGV[i], ARGV[i + 1])
end
return dropped
