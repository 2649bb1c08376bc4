-- log.lua: what CTRAIN_LOG asks for: words separated by commas.
--   trace          why a step was recorded (anew)
--   kernels        where the time of compiled steps went, at the end
--   closures       checkpoint closures that did not run, and why
--   timeline:FILE  kernels, steps, closures and fetched batches as a file for Chrome's about:tracing or Perfetto

local core = require "ctrain.core"

local log = {}

local known = { trace = true, kernels = true, closures = true }
local asked = {}

for word in (os.getenv("CTRAIN_LOG") or ""):gmatch("[^,%s]+") do
  local path = word:match("^timeline:(.+)$")
  if path then
    local ok, problem = pcall(core.inspect.timeline, path)
    if not ok then core.log("warning", "CTRAIN_LOG: timeline: " .. tostring(problem)) end
    log.timeline = ok
  elseif known[word] then
    asked[word] = true
  else
    core.log("warning", ("CTRAIN_LOG: there is no '%s'; it takes trace, kernels, closures, timeline:FILE"):format(word))
  end
end

---Whether CTRAIN_LOG has the word.
---@param word "trace"|"kernels"|"closures"
---@return boolean
function log.wants(word) return asked[word] == true end

---The time, where a timeline is kept; else nil.
---@return number?
function log.begin() return log.timeline and core.clock() or nil end

---Notes what has gone on since log.begin gave `begin`; nothing where that is nil.
---@param name string
---@param category string
---@param begin number?
function log.finish(name, category, begin)
  if begin then core.inspect.event(name, category, begin, core.clock()) end
end

return log
