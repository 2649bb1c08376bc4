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
