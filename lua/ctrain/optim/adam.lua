-- adam.lua: Adam (Kingma and Ba, 2015), AdamW (Loshchilov and Hutter, 2019) and their kin that keep averages of the
-- gradient and a step count. Formulas, defaults and names of state are PyTorch's; what depends on the step
-- alone is computed in float64.

local core = require "ctrain.core"
local Optimizer = require "ctrain.optim.optimizer"
local options = require "ctrain.options"

local function check_betas(where, o)
  for i = 1, 2 do
    local beta = options.number(where, "betas[" .. i .. "]", o.betas[i], 0, 1)
    if beta == 1 then options.fail("%s: betas[%d] must be below 1", where, i) end
  end
end

local function check_positive(...)
  local names = { ... }
  return function(where, o)
    for _, name in ipairs(names) do
      if type(o[name]) == "number" then options.number(where, name, o[name], 0) end
    end
    if o.betas then check_betas(where, o) end
  end
end

local function moments(p, _, state)
  state.step = state.step or core.zeros({}, { dtype = "float32" })
  state.exp_avg = state.exp_avg or core.zeros_like(p)
  state.exp_avg_sq = state.exp_avg_sq or core.zeros_like(p)
end

-- The factors that a group's parameters share in a step.
local function betas_of(group)
  local betas = group:value "betas"
  return { beta1 = betas[1], beta2 = betas[2], rest1 = 1 - betas[1], rest2 = 1 - betas[2] }
end

-- Counts the step; returns its number as float64.
local function count(state)
  state.step:add_(1)
  return state.step:to("float64")
end

-- Moves the averages of the gradient and of its square.
local function average(state, grad, shared)
  state.exp_avg:copy_(state.exp_avg * shared.beta1 + grad * shared.rest1)
  state.exp_avg_sq:copy_(state.exp_avg_sq * shared.beta2 + grad * grad * shared.rest2)
end

local function adam_state(p, group, state)
  moments(p, group, state)
  if group.amsgrad then state.max_exp_avg_sq = state.max_exp_avg_sq or core.zeros_like(p) end
end

local function adam_step(p, grad, state, group, shared)
  local step = count(state)
  average(state, grad, shared)
  local square = state.exp_avg_sq
  if group.amsgrad then
    state.max_exp_avg_sq:copy_(state.max_exp_avg_sq:maximum(square))
    square = state.max_exp_avg_sq
  end
  local size = group:value "lr" / (1 - shared.beta1 ^ step)
  local correction = (1 - shared.beta2 ^ step):sqrt()
  p:sub_(state.exp_avg / (square:sqrt() / correction + group:value "eps") * size)
end

local adam_order = { "lr", "betas", "eps", "weight_decay", "amsgrad", "maximize" }

local function adam_defaults(weight_decay)
  return {
    lr = 1e-3, betas = { 0.9, 0.999 }, eps = 1e-8, weight_decay = weight_decay, amsgrad = false, maximize = false,
  }
end

local Adam = Optimizer.define {
  name = "Adam", order = adam_order, defaults = adam_defaults(0),
  check = check_positive("lr", "eps", "weight_decay"), state = adam_state, prepare = betas_of,
  update = function(p, grad, state, group, shared)
    if not group:is_zero("weight_decay") then grad = grad + p * group:value "weight_decay" end
    adam_step(p, grad, state, group, shared)
  end,
}

local AdamW = Optimizer.define {
  name = "AdamW", order = adam_order, defaults = adam_defaults(0.01),
  check = check_positive("lr", "eps", "weight_decay"), state = adam_state, prepare = betas_of,
  update = function(p, grad, state, group, shared)
    if not group:is_zero("weight_decay") then p:mul_(1 - group:value "lr" * group:value "weight_decay") end
    adam_step(p, grad, state, group, shared)
  end,
}

return {
  Adam = Adam, AdamW = AdamW,
  check_positive = check_positive, moments = moments, betas_of = betas_of, count = count, average = average,
}
