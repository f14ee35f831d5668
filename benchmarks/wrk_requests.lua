-- Posts the questions of a file, one JSON object a line, in turn, and tells in the end what became of
-- them as one JSON object. For `wrk -s wrk_requests.lua URL -- FILE`, as server_load.py calls it.

local requests, last = {}, 0

function init(args)
  local headers = { ["Content-Type"] = "application/json" }
  for question in io.lines(args[1]) do
    requests[#requests + 1] = wrk.format("POST", nil, headers, question)
  end
end

function request()
  last = last % #requests + 1
  return requests[last]
end

function done(summary, latency)
  local lost = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
  io.write(string.format(
    '{"seconds": %.6f, "answers": %d, "refused": %d, "lost": %d, "p50": %.3f, "p95": %.3f, "p99": %.3f}\n',
    summary.duration / 1e6, summary.requests, summary.errors.status, lost,
    latency:percentile(50) / 1e3, latency:percentile(95) / 1e3, latency:percentile(99) / 1e3
  ))
end
