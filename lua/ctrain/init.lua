-- ctrain: a deep-learning training runtime. `local ct = require "ctrain"` gives tensors, their functions (every
-- method of a tensor is also a function: ct.exp(t)), ct.nn, ct.optim, and the tracing and data functions of
-- ct.backend, ct.trace and ct.utils. What a script does not use is not loaded.

local core = require "ctrain.core"

require "ctrain.tensor"
require "ctrain.print"

local ct = {}

-- What the core offers to ctrain's own Lua files only.
local own = {
  set_format = true, raise = true, nearest = true, script_line = true, trace_begin = true, interrupted = true,
  h5 = true, log = true, source = true, clock = true, is_terminal = true, anomaly = true, inspect = true,
}

for name, value in pairs(core) do
  if not own[name] then ct[name] = value end
end
for name, method in pairs(core.Tensor) do
  if type(method) == "function" and not name:find("^__") and ct[name] == nil then ct[name] = method end
end
for _, dtype in ipairs { "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
  "float64" } do
  ct[dtype] = dtype
end

-- Names of ct and the module that defines each: a function of that module's table, or the table itself.
local functions = {
  backend = "backend", current_backend = "backend", current_torch_device = "backend", use_cs = "backend",
  compile = "backend", trace = "trace", step_closure = "closure", checkpoint_closure = "closure",
  save = "checkpoint", load = "checkpoint", scalar = "scalar",
}
local modules = { nn = "nn", optim = "optim", debug = "debug" }

ct.utils = setmetatable({}, {
  __index = function(utils, name)
    if name == "data" then
      utils.data = require "ctrain.data"
    elseif name == "profiler" then
      utils.profiler = { Activity = require("ctrain.data.profiler").Activity }
    end
    return rawget(utils, name)
  end,
  names = function() return { "data", "profiler" } end,
})

return setmetatable(ct, {
  __index = function(_, name)
    local value
    if functions[name] then
      value = require("ctrain." .. functions[name])[name]
    elseif modules[name] then
      value = require("ctrain." .. modules[name])
    end
    if value ~= nil then rawset(ct, name, value) end
    return value
  end,
  -- what is loaded on demand, for help and completion
  names = function()
    local names = {}
    for _, list in ipairs { functions, modules } do
      for name in pairs(list) do names[#names + 1] = name end
    end
    return names
  end,
})
