-- Runs the calls that go together, for the scripts that begin with this file.
--
-- KEYS  those of all calls, one call after the other
-- ARGV  of each call: how many keys, and how many arguments, then its arguments
-- each returns what f returns of each; an error that f returns is that of its call alone

local function each(f)
  local replies, key, arg = {}, 1, 1
  while arg <= #ARGV do
    local keys, args = key + ARGV[arg], arg + 2 + ARGV[arg + 1]
    replies[#replies + 1] = f({unpack(KEYS, key, keys - 1)}, {unpack(ARGV, arg + 2, args - 1)})
    key, arg = keys, args
  end
  return replies
end
