-- debug.lua: ct.debug, switches for looking into how steps are run.

local core = require "ctrain.core"
local options = require "ctrain.options"
local trace = require "ctrain.trace"

local debugging = {}

---Whether steps traced from now on are compiled (the default), or stay on the eager loops. The results are the same
---bits; this is for finding out which side a fault is on.
---@param on boolean
function debugging.compile(on)
  options.boolean("ct.debug.compile", "on", on)
  trace.compile_by_default = on
end

local Kernels = {}

function Kernels.__tostring(steps)
  local lines = {}
  for _, step in ipairs(steps) do
    lines[#lines + 1] = ("%s: %d runs, %.3f ms each"):format(step.place, step.runs, 1e3 * step.seconds / step.runs)
    lines[#lines + 1] = "   count        ms   share     GB/s  GFLOP/s"
    for _, row in ipairs(step) do
      lines[#lines + 1] = ("%8d %9.4f %5.1f %% %8.1f %8.1f  %s"):format(row.count, 1e3 * row.seconds / row.count,
        100 * row.share, row.gbs, row.gflops, row.name)
    end
  end
  if #lines == 0 then return "no compiled step ran while time was taken" end
  return table.concat(lines, "\n")
end

---Where the time of compiled steps goes. With true or false, switches the taking of time on (from zero) or off; without
---an argument, gives what was found: a list of steps, each with place, runs and seconds, and a list of its kernels and
---library calls, longest first, each with name (what it does, for which script lines), kind, count, seconds (of all
---runs), share, gbs and gflops. tostring of it is a table to read; CTRAIN_LOG=kernels prints that at the end.
---@param on boolean?
---@return table?
function debugging.kernels(on)
  if on ~= nil then
    trace.measure(options.boolean("ct.debug.kernels", "on", on))
    return
  end
  local steps = trace.kernels()
  for _, step in ipairs(steps) do
    step.seconds = 0
    for _, row in ipairs(step) do step.seconds = step.seconds + row.seconds end
    for _, row in ipairs(step) do row.share = step.seconds > 0 and row.seconds / step.seconds or 0 end
    table.sort(step, function(a, b) return a.seconds > b.seconds end)
  end
  return setmetatable(steps, Kernels)
end

---Whether the first NaN or inf that an operation makes of operands without one is an error, which names the operation
---and the script line (in a gradient: those of the operation it belongs to). What comes in with the data, or is put
---there as a constant, is passed on. Meanwhile traced steps run on the eager loops; an error leaves their state as it
---was.
---@param on boolean
function debugging.anomaly(on)
  options.boolean("ct.debug.anomaly", "on", on)
  core.anomaly(on)
end

return debugging
