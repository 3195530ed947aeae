-- For wrk, where it is installed: sends each request of a file once, and counts the answers with code OK.
--   wrk -t1 -c64 -d600s -s wrk.lua http://HOST:PORT -- REQUESTS_FILE
-- Prints one line of JSON: see `Loaded` in load.py. When the last request is answered, it ends the run by
-- itself with wrk's own interrupt, so that a run is so many plays and not so many seconds.

local ffi = require("ffi")
ffi.cdef[[
typedef struct { long seconds; long nanoseconds; } moment;
int clock_gettime(int clock, moment *found);
int getpid(void);
int kill(int pid, int signal);
]]

local function now()
  local found = ffi.new("moment")
  ffi.C.clock_gettime(1, found)
  return tonumber(found.seconds) + tonumber(found.nanoseconds) / 1e9
end

local the_thread

function setup(thread)
  the_thread = thread
end

function init(arguments)
  local file = assert(io.open(arguments[1], "rb"))
  local data = file:read("*a")
  file:close()
  requests, sent, answered, ok, failed, first_failure = {}, 0, 0, 0, 0, ""
  local at = 1
  while at <= #data do
    local a, b, c, d = data:byte(at, at + 3)
    local size = ((a * 256 + b) * 256 + c) * 256 + d
    requests[#requests + 1] = data:sub(at + 4, at + 3 + size)
    at = at + 4 + size
  end
  total = #requests
end

-- wrk has no way to send nothing: what is asked beyond the last is the first again, a replay that is not counted.
function request()
  if sent == 0 then started = now() end
  sent = sent + 1
  return requests[(sent - 1) % total + 1]
end

function response(status, headers, body)
  if answered == total then return end
  answered = answered + 1
  if body:find('"code":"OK"', 1, true) then
    ok = ok + 1
  else
    failed = failed + 1
    if first_failure == "" then first_failure = status .. " " .. body:sub(1, 400) end
  end
  if answered == total then
    ended = now()
    ffi.C.kill(ffi.C.getpid(), 2)
  end
end

function done(summary, latency, all)
  io.write(string.format(
    '{"ok": %d, "failed": %d, "first_failure": %q, "seconds": %.6f, "p50_ms": %.3f, "p99_ms": %.3f}\n',
    the_thread:get("ok"), the_thread:get("failed"), (the_thread:get("first_failure"):gsub("[%c\"\\]", " ")),
    the_thread:get("ended") - the_thread:get("started"), latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
