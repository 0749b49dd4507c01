-- Requests that differ, if an argument is a path with {n} in it; what came of them, as a line of JSON.

function init(arguments)
  local path = arguments[1]
  if path then
    local requests, last = {}, 0
    for number = 0, 999 do
      requests[number] = wrk.format("GET", (path:gsub("{n}", number)))
    end
    request = function()
      last = (last + 1) % 1000
      return requests[last]
    end
  end
end

function done(summary, latency, requests)
  local errors, latencies = {}, {}
  for name, count in pairs(summary.errors) do
    errors[#errors + 1] = string.format('"%s": %d', name, count)
  end
  for at = 1, #latency do
    local value, count = latency(at)
    latencies[at] = string.format("[%d, %d]", value, count)
  end
  io.write(string.format(
    '\n{"requests": %d, "duration_us": %d, "errors": {%s}, "latencies_us": [%s]}\n',
    summary.requests, summary.duration, table.concat(errors, ", "), table.concat(latencies, ", ")
  ))
end
