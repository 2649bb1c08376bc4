-- adaptive.lua: RMSprop, Adagrad, Adadelta, Rprop and averaged SGD, by PyTorch's formulas.

local core = require "ctrain.core"
local check_positive = require("ctrain.optim.adam").check_positive
local Optimizer = require "ctrain.optim.optimizer"
local options = require "ctrain.options"

local where = core.where

local function zero_step(state)
  state.step = state.step or core.zeros({}, { dtype = "float32" })
end

local function decayed(p, grad, group)
  if group:is_zero("weight_decay") then return grad end
  return grad + p * group:value "weight_decay"
end

local RMSprop = Optimizer.define {
  name = "RMSprop",
  order = { "lr", "alpha", "eps", "weight_decay", "momentum", "centered", "maximize" },
  defaults = { lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0, centered = false,
    maximize = false },
  check = check_positive("lr", "alpha", "eps", "weight_decay", "momentum"),
  state = function(p, group, state)
    zero_step(state)
    state.square_avg = state.square_avg or core.zeros_like(p)
    if not group:is_zero("momentum") then state.momentum_buffer = state.momentum_buffer or core.zeros_like(p) end
    if group.centered then state.grad_avg = state.grad_avg or core.zeros_like(p) end
  end,
  update = function(p, grad, state, group)
    local alpha = group:value "alpha"
    local rest = 1 - alpha
    state.step:add_(1)
    grad = decayed(p, grad, group)
    state.square_avg:copy_(state.square_avg * alpha + grad * grad * rest)
    local square = state.square_avg
    if group.centered then
      state.grad_avg:copy_(state.grad_avg * alpha + grad * rest)
      square = square - state.grad_avg * state.grad_avg
    end
    local move = grad / (square:sqrt() + group:value "eps")
    if not group:is_zero("momentum") then
      state.momentum_buffer:copy_(state.momentum_buffer * group:value "momentum" + move)
      move = state.momentum_buffer
    end
    p:sub_(move * group:value "lr")
  end,
}

local Adagrad = Optimizer.define {
  name = "Adagrad",
  order = { "lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps", "maximize" },
  defaults = { lr = 1e-2, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10,
    maximize = false },
  check = check_positive("lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps"),
  state = function(p, group, state)
    zero_step(state)
    state.sum = state.sum or core.full_like(p, group:is_zero("initial_accumulator_value") and 0
      or group.initial_accumulator_value)
  end,
  update = function(p, grad, state, group)
    grad = decayed(p, grad, group)
    state.step:add_(1)
    local size = group:value "lr" / ((state.step:to("float64") - 1) * group:value "lr_decay" + 1)
    state.sum:copy_(state.sum + grad * grad)
    p:sub_(grad / (state.sum:sqrt() + group:value "eps") * size)
  end,
}

local Adadelta = Optimizer.define {
  name = "Adadelta",
  order = { "lr", "rho", "eps", "weight_decay", "maximize" },
  defaults = { lr = 1, rho = 0.9, eps = 1e-6, weight_decay = 0, maximize = false },
  check = function(where_, o)
    check_positive("lr", "eps", "weight_decay")(where_, o)
    options.number(where_, "rho", o.rho, 0, 1)
  end,
  state = function(p, _, state)
    zero_step(state)
    state.square_avg = state.square_avg or core.zeros_like(p)
    state.acc_delta = state.acc_delta or core.zeros_like(p)
  end,
  update = function(p, grad, state, group)
    local rho, eps = group:value "rho", group:value "eps"
    local rest = 1 - rho
    grad = decayed(p, grad, group)
    state.step:add_(1)
    state.square_avg:copy_(state.square_avg * rho + grad * grad * rest)
    local move = (state.acc_delta + eps):sqrt() / (state.square_avg + eps):sqrt() * grad
    state.acc_delta:copy_(state.acc_delta * rho + move * move * rest)
    p:sub_(move * group:value "lr")
  end,
}

local Rprop = Optimizer.define {
  name = "Rprop",
  order = { "lr", "etas", "step_sizes", "maximize" },
  defaults = { lr = 1e-2, etas = { 0.5, 1.2 }, step_sizes = { 1e-6, 50 }, maximize = false },
  check = function(where_, o)
    check_positive("lr")(where_, o)
    if not (o.etas[1] > 0 and o.etas[1] < 1 and o.etas[2] > 1) then
      options.fail("%s: etas are %g and %g; expected one below 1 and one above", where_, o.etas[1], o.etas[2])
    end
  end,
  state = function(p, group, state)
    zero_step(state)
    state.prev = state.prev or core.zeros_like(p)
    state.step_size = state.step_size or core.full_like(p, group.lr)
  end,
  update = function(p, grad, state, group)
    local etas, bounds = group:value "etas", group:value "step_sizes"
    state.step:add_(1)
    local agreement = grad * state.prev
    local back = agreement:lt(0)
    local factor = where(back, etas[1], where(agreement:gt(0), etas[2], core.ones_like(etas[2])))
    state.step_size:copy_((state.step_size * factor):clamp(bounds[1], bounds[2]))
    grad = where(back, 0, grad)
    p:sub_(grad:sign() * state.step_size)
    state.prev:copy_(grad)
  end,
}

local ASGD = Optimizer.define {
  name = "ASGD",
  order = { "lr", "lambd", "alpha", "t0", "weight_decay", "maximize" },
  defaults = { lr = 1e-2, lambd = 1e-4, alpha = 0.75, t0 = 1e6, weight_decay = 0, maximize = false },
  check = check_positive("lr", "weight_decay"),
  state = function(p, group, state)
    zero_step(state)
    state.eta = state.eta or core.full({}, group.lr, { dtype = "float64" })
    state.mu = state.mu or core.ones({}, { dtype = "float64" })
    state.ax = state.ax or core.zeros_like(p)
  end,
  update = function(p, grad, state, group)
    local lr, lambd = group:value "lr", group:value "lambd"
    grad = decayed(p, grad, group)
    state.step:add_(1)
    local step = state.step:to("float64")
    p:copy_(p * (1 - lambd * state.eta) - grad * state.eta)
    state.ax:copy_(where(state.mu:eq(1), p, state.ax + (p - state.ax) * state.mu))
    state.eta:copy_(lr / (lambd * lr * step + 1) ^ group:value "alpha")
    state.mu:copy_(1 / (step - group:value "t0"):maximum(1))
  end,
}

return { RMSprop = RMSprop, Adagrad = Adagrad, Adadelta = Adadelta, Rprop = Rprop, ASGD = ASGD }
