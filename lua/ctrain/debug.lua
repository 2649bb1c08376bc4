-- debug.lua: ct.debug, switches for looking into how steps are run.

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

return debugging
