-- scalar.lua: ct.scalar, a number that steps read anew at every run.

local core = require "ctrain.core"
local options = require "ctrain.options"

local scalar = {}

local read_arguments = options.signature("ct.scalar", { "value" }, { "dtype" }, { dtype = "float64" })

---A 0-d tensor as a number that may change: a traced step that uses it reads its value at every run, so that setting
---`s.value = x` (or s:fill_(x)) between two steps takes effect without recording the step again. As any 0-d tensor it
---takes the type of what it meets.
---@param value number|boolean
---@param dtype dtype? default float64, in which every Lua number is kept as it is
---@return tensor
function scalar.scalar(...)
  local o = read_arguments(...)
  if type(o.value) ~= "number" and type(o.value) ~= "boolean" then
    options.fail("ct.scalar: value must be a number or boolean, not %s", options.describe_value(o.value))
  end
  return core.full({}, o.value, { dtype = o.dtype })
end

return scalar
