-- adam_family.lua: Adamax, NAdam, RAdam, Lamb and Lion, by PyTorch's formulas (Lamb: You et al., 2020, without
-- bias correction; Lion: Chen et al., 2023).

local core = require "ctrain.core"
local adam = require "ctrain.optim.adam"
local Optimizer = require "ctrain.optim.optimizer"

local check_positive, moments, betas_of = adam.check_positive, adam.moments, adam.betas_of
local count, average = adam.count, adam.average
local where = core.where

-- grad + weight_decay * p, or a decayed p where the decay is decoupled from the gradient.
local function decayed(p, grad, group, decoupled)
  if group:is_zero("weight_decay") then return grad end
  if decoupled then
    p:mul_(1 - group:value "lr" * group:value "weight_decay")
    return grad
  end
  return grad + p * group:value "weight_decay"
end

local Adamax = Optimizer.define {
  name = "Adamax",
  order = { "lr", "betas", "eps", "weight_decay", "maximize" },
  defaults = { lr = 2e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0, maximize = false },
  check = check_positive("lr", "eps", "weight_decay"),
  state = function(p, _, state)
    state.step = state.step or core.zeros({}, { dtype = "float32" })
    state.exp_avg = state.exp_avg or core.zeros_like(p)
    state.exp_inf = state.exp_inf or core.zeros_like(p)
  end,
  prepare = betas_of,
  update = function(p, grad, state, group, shared)
    grad = decayed(p, grad, group)
    local step = count(state)
    state.exp_avg:copy_(state.exp_avg * shared.beta1 + grad * shared.rest1)
    state.exp_inf:copy_((state.exp_inf * shared.beta2):maximum(grad:abs() + group:value "eps"))
    p:sub_(state.exp_avg / state.exp_inf * (group:value "lr" / (1 - shared.beta1 ^ step)))
  end,
}

local NAdam = Optimizer.define {
  name = "NAdam",
  order = { "lr", "betas", "eps", "weight_decay", "momentum_decay", "decoupled_weight_decay", "maximize" },
  defaults = { lr = 2e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0, momentum_decay = 4e-3,
    decoupled_weight_decay = false, maximize = false },
  check = check_positive("lr", "eps", "weight_decay", "momentum_decay"),
  state = function(p, group, state)
    moments(p, group, state)
    state.mu_product = state.mu_product or core.ones({}, { dtype = "float64" })
  end,
  prepare = betas_of,
  update = function(p, grad, state, group, shared)
    grad = decayed(p, grad, group, group.decoupled_weight_decay)
    local step, decay, lr = count(state), group:value "momentum_decay", group:value "lr"
    local base = core.full({}, 0.96, { dtype = "float64" })
    local mu = shared.beta1 * (1 - base ^ (step * decay) * 0.5)
    local next_mu = shared.beta1 * (1 - base ^ ((step + 1) * decay) * 0.5)
    state.mu_product:mul_(mu)
    average(state, grad, shared)
    local denominator = (state.exp_avg_sq / (1 - shared.beta2 ^ step)):sqrt() + group:value "eps"
    local product = state.mu_product
    p:sub_(grad / denominator * (lr * (1 - mu) / (1 - product))
      + state.exp_avg / denominator * (lr * next_mu / (1 - product * next_mu)))
  end,
}

local RAdam = Optimizer.define {
  name = "RAdam",
  order = { "lr", "betas", "eps", "weight_decay", "decoupled_weight_decay", "maximize" },
  defaults = { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = 0, decoupled_weight_decay = false,
    maximize = false },
  check = check_positive("lr", "eps", "weight_decay"),
  state = moments,
  prepare = betas_of,
  update = function(p, grad, state, group, shared)
    grad = decayed(p, grad, group, group.decoupled_weight_decay)
    local step = count(state)
    average(state, grad, shared)
    local power = shared.beta2 ^ step
    local size = group:value "lr" / (1 - shared.beta1 ^ step)
    local limit = 2 / shared.rest2 - 1
    local length = limit - step * power * 2 / (1 - power)
    local tractable = length:gt(5)
    local safe = where(tractable, length, limit)
    local rectification = ((safe - 4) * (safe - 2) * limit / ((limit - 4) * (limit - 2) * safe)):sqrt()
    local adaptive = rectification * (1 - power):sqrt() / (state.exp_avg_sq:sqrt() + group:value "eps")
    p:sub_(state.exp_avg * size * where(tractable, adaptive, 1))
  end,
}

local Lion = Optimizer.define {
  name = "Lion",
  order = { "lr", "betas", "weight_decay", "maximize" },
  defaults = { lr = 1e-4, betas = { 0.9, 0.99 }, weight_decay = 0, maximize = false },
  check = check_positive("lr", "weight_decay"),
  state = function(p, _, state) state.exp_avg = state.exp_avg or core.zeros_like(p) end,
  prepare = betas_of,
  update = function(p, grad, state, group, shared)
    grad = decayed(p, grad, group, true)
    p:sub_((state.exp_avg * shared.beta1 + grad * shared.rest1):sign() * group:value "lr")
    state.exp_avg:copy_(state.exp_avg * shared.beta2 + grad * shared.rest2)
  end,
}

local Lamb = Optimizer.define {
  name = "Lamb",
  order = { "lr", "betas", "eps", "weight_decay", "adam", "maximize" },
  defaults = { lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-6, weight_decay = 0, adam = false, maximize = false },
  check = check_positive("lr", "eps", "weight_decay"),
  state = moments,
  prepare = betas_of,
  update = function(p, grad, state, group, shared)
    count(state)
    average(state, grad, shared)
    local move = state.exp_avg / (state.exp_avg_sq:sqrt() + group:value "eps")
    if not group:is_zero("weight_decay") then move = move + p * group:value "weight_decay" end
    local size = group:value "lr"
    if not group.adam then
      local length, reach = p:detach():norm():clamp(0, 10), move:norm()
      size = size * where(length:eq(0):logical_or(reach:eq(0)), 1, length / reach)
    end
    p:sub_(move * size)
  end,
}

return { Adamax = Adamax, NAdam = NAdam, RAdam = RAdam, Lion = Lion, Lamb = Lamb }
