-- initializers.lua: ct.nn.init, the ways to fill a fresh parameter, as PyTorch names and scales them. A fill is
-- deferred like any creation: it costs nothing until the parameter is used.

local core = require "ctrain.core"
local options = require "ctrain.options"

local fail, number = options.fail, options.number

local init = {}

local function under_no_grad(name, fill)
  init[name] = function(tensor, ...)
    options.tensor("nn.init." .. name, "the first argument", tensor)
    core.no_grad(fill, tensor, ...)
    return tensor
  end
end

---Fan in and fan out of a weight: (out, in, ...) with what follows as the receptive field.
local function fans(name, tensor)
  local shape = tensor.shape
  if #shape < 2 then fail("nn.init.%s: needs at least 2 dimensions, got %s", name, options.shape_text(shape)) end
  local field = 1
  for d = 3, #shape do field = field * shape[d] end
  return shape[2] * field, shape[1] * field
end

local gains = {
  linear = 1, conv1d = 1, conv2d = 1, conv3d = 1, sigmoid = 1, tanh = 5 / 3, relu = math.sqrt(2), selu = 3 / 4,
}

---The factor that keeps variance through a nonlinearity.
---@param nonlinearity string
---@param parameter number? the slope of leaky_relu, default 0.01
function init.calculate_gain(nonlinearity, parameter)
  if nonlinearity == "leaky_relu" then return math.sqrt(2 / (1 + (parameter or 0.01) ^ 2)) end
  local names = { "leaky_relu" }
  for name in pairs(gains) do names[#names + 1] = name end
  table.sort(names)
  return gains[options.choice("nn.init.calculate_gain", "nonlinearity", nonlinearity, names)]
end

under_no_grad("uniform_", function(t, low, high)
  t:uniform_(number("nn.init.uniform_", "low", low or 0), number("nn.init.uniform_", "high", high or 1))
end)

under_no_grad("normal_", function(t, mean, std)
  t:normal_(number("nn.init.normal_", "mean", mean or 0), number("nn.init.normal_", "std", std or 1, 0))
end)

under_no_grad("constant_", function(t, value) t:fill_(number("nn.init.constant_", "value", value)) end)

under_no_grad("zeros_", function(t) t:zero_() end)

under_no_grad("ones_", function(t) t:fill_(1) end)

under_no_grad("eye_", function(t)
  if t.ndim ~= 2 then fail("nn.init.eye_: needs a matrix, got %s", options.shape_text(t)) end
  t:copy_(core.eye(t.shape[1], t.shape[2], { dtype = t.dtype }))
end)

under_no_grad("xavier_uniform_", function(t, gain)
  local fan_in, fan_out = fans("xavier_uniform_", t)
  local bound = (gain or 1) * math.sqrt(6 / (fan_in + fan_out))
  t:uniform_(-bound, bound)
end)

under_no_grad("xavier_normal_", function(t, gain)
  local fan_in, fan_out = fans("xavier_normal_", t)
  t:normal_(0, (gain or 1) * math.sqrt(2 / (fan_in + fan_out)))
end)

local function kaiming_std(name, t, ...)
  local reader = options.signature("nn.init." .. name, {}, { "a", "mode", "nonlinearity" },
    { a = 0, mode = "fan_in", nonlinearity = "leaky_relu" })
  local o = reader(...)
  local fan_in, fan_out = fans(name, t)
  local fan = options.choice("nn.init." .. name, "mode", o.mode, { "fan_in", "fan_out" }) == "fan_in"
    and fan_in or fan_out
  return init.calculate_gain(o.nonlinearity, o.a) / math.sqrt(math.max(fan, 1))
end

under_no_grad("kaiming_uniform_", function(t, ...)
  local bound = math.sqrt(3) * kaiming_std("kaiming_uniform_", t, ...)
  t:uniform_(-bound, bound)
end)

under_no_grad("kaiming_normal_", function(t, ...)
  t:normal_(0, kaiming_std("kaiming_normal_", t, ...))
end)

return init
