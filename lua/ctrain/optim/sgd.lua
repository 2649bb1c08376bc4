-- sgd.lua: stochastic gradient descent with momentum, as PyTorch computes it.

local core = require "ctrain.core"
local Optimizer = require "ctrain.optim.optimizer"
local options = require "ctrain.options"

local SGD = Optimizer.define {
  name = "SGD",
  order = { "lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize" },
  defaults = { lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0, nesterov = false, maximize = false },

  check = function(where, o)
    for _, name in ipairs { "lr", "momentum", "weight_decay" } do
      if type(o[name]) == "number" then options.number(where, name, o[name], 0) end
    end
    if o.nesterov and (o.momentum == 0 or o.dampening ~= 0) then
      options.fail("%s: nesterov needs a momentum above 0 and a dampening of 0", where)
    end
  end,

  state = function(p, group, state)
    if group:is_zero("momentum") then return end
    state.momentum_buffer = state.momentum_buffer or core.zeros_like(p)
    -- the first step takes the whole gradient, undampened
    if not group:is_zero("dampening") then state.step = state.step or core.zeros({}, { dtype = "float32" }) end
  end,

  update = function(p, grad, state, group)
    if not group:is_zero("weight_decay") then grad = grad + p * group:value "weight_decay" end
    if not group:is_zero("momentum") then
      local momentum, buffer = group:value "momentum", state.momentum_buffer
      local share = grad
      if not group:is_zero("dampening") then
        share = grad * core.where(state.step:eq(0), 1, 1 - group:value "dampening")
        state.step:add_(1)
      end
      buffer:copy_(buffer * momentum + share)
      grad = group.nesterov and grad + buffer * momentum or buffer
    end
    p:sub_(grad * group:value "lr")
  end,
}

return { SGD = SGD }
