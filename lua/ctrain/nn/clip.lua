-- clip.lua: ct.nn.utils, what is done to all gradients at once between backward and the optimizer's step.

local core = require "ctrain.core"
local options = require "ctrain.options"

local fail = options.fail
local utils = {}

local function gradients(where, parameters)
  if options.is_tensor(parameters) then parameters = { parameters } end
  if type(parameters) ~= "table" or rawget(parameters, "_values") then
    fail("%s: expected a list of parameters, not %s; pass model:parameters()", where,
      options.describe_value(parameters))
  end
  local list = {}
  for i, parameter in ipairs(parameters) do
    local grad = options.tensor(where, "parameters[" .. i .. "]", parameter).grad
    if grad then list[#list + 1] = grad end
  end
  return list
end

local function total_norm(grads, norm_type)
  if #grads == 1 then return grads[1]:norm(norm_type) end
  local norms = {}
  for i, grad in ipairs(grads) do norms[i] = grad:norm(norm_type) end
  for i = 2, #norms do
    if norms[i].dtype ~= norms[1].dtype then norms[i] = norms[i]:to(norms[1].dtype) end
  end
  return core.stack(norms):norm(norm_type)
end

local norm_arguments = options.signature("nn.utils.clip_grad_norm_", { "parameters", "max_norm" },
  { "norm_type", "error_if_nonfinite" }, { norm_type = 2, error_if_nonfinite = false })

---Scales all gradients by one factor so that the norm of all of them together is at most max_norm.
---@return tensor norm of the gradients before
function utils.clip_grad_norm_(...)
  local o = norm_arguments(...)
  local grads = gradients("nn.utils.clip_grad_norm_", o.parameters)
  if not options.is_tensor(o.max_norm) then
    options.number("nn.utils.clip_grad_norm_", "max_norm", o.max_norm, 0)
  end
  if #grads == 0 then return core.zeros({}) end
  return core.no_grad(function()
    local norm = total_norm(grads, o.norm_type)
    if o.error_if_nonfinite and not norm:isfinite():item() then
      fail("nn.utils.clip_grad_norm_: the norm of the gradients is not finite")
    end
    local factor = (o.max_norm / (norm + 1e-6)):clamp_max(1)
    for _, grad in ipairs(grads) do grad:mul_(factor) end
    return norm
  end)
end

---Brings every element of every gradient into [-clip_value, clip_value].
function utils.clip_grad_value_(parameters, clip_value)
  local bound = clip_value
  if not options.is_tensor(bound) then options.number("nn.utils.clip_grad_value_", "clip_value", bound, 0) end
  local grads = gradients("nn.utils.clip_grad_value_", parameters)
  core.no_grad(function()
    for _, grad in ipairs(grads) do grad:clamp_(-bound, bound) end
  end)
end

---All parameters one after the other, as one vector.
---@return tensor
function utils.parameters_to_vector(parameters)
  local pieces = {}
  for i, parameter in ipairs(parameters) do pieces[i] = parameter:flatten() end
  return core.cat(pieces, 1)
end

return utils
