-- Sends the requests of a file round and round. Each is its length, a line feed,
-- and the bytes of the whole request.
local requests, at = {}, 0

function init(args)
  local file = assert(io.open(args[1], "rb"))
  for size in function() return file:read("*l") end do
    requests[#requests + 1] = file:read(tonumber(size))
  end
  file:close()
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency)
  local e = summary.errors
  print(string.format(
    '{"requests":%d,"micros":%d,"p50":%f,"p99":%f,"connect":%d,"read":%d,"write":%d,"timeout":%d,"status":%d}',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    e.connect, e.read, e.write, e.timeout, e.status))
end
