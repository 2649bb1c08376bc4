-- optimizer.lua: what all optimizers share. Hyperparameters that are numbers live in 0-d float64 tensors, which
-- are state of a trace like any other: group.lr = 0.1 writes the tensor, so it takes effect at the next step,
-- recorded or not, and group.lr reads it back. State of a parameter is made when the parameter is added.
--
-- A formula may leave out a term while its factor is 0 (no weight decay); what a recorded step took for granted
-- that way is noted with guards.

local core = require "ctrain.core"
local guards = require "ctrain.guards"
local modules = require "ctrain.nn.module"
local options = require "ctrain.options"
require "ctrain.tensor"

local fail, is_tensor = options.fail, options.is_tensor

-- ---- Groups ----------------------------------------------------------------------------------------------

-- A group: params (a list), plain settings in _plain, numbers in _tensors (pairs such as betas: a list of two).
local Group = {}

local function scalar(value) return core.full({}, value, { dtype = "float64" }) end

local function write_number(group, where, key, tensor, value)
  if is_tensor(value) then
    if value:numel() ~= 1 then fail("%s: %s must be one number, not %s", where, key, options.shape_text(value)) end
    group._zero[key] = false -- unknown to the host from now on
    core.no_grad(tensor.copy_, tensor, value:reshape({}))
  else
    options.number(where, key, value)
    group._zero[key] = group._zero[key] ~= nil and value == 0 and not group._moving[key]
    core.no_grad(tensor.fill_, tensor, value)
  end
end

-- The two numbers of a pair, readable and writable in place.
local function pair_view(group, key)
  return setmetatable({}, {
    __index = function(_, i)
      local tensor = group._tensors[key][i]
      return tensor and tensor:item()
    end,
    __newindex = function(_, i, value)
      local tensor = group._tensors[key][i]
      if not tensor then fail("%s: %s has two numbers", group._name, key) end
      write_number(group, group._name, key, tensor, value)
    end,
    __len = function() return 2 end,
  })
end

local function group_get(group, key)
  if Group[key] then return Group[key] end
  local tensor = group._tensors[key]
  if type(tensor) == "table" then return pair_view(group, key) end
  if tensor then return tensor:item() end
  local value = group._plain[key]
  if value ~= nil and guards.active() then guards.note(group._plain, key, value) end
  return value
end

local function group_set(group, key, value)
  local tensor = group._tensors[key]
  if tensor == nil then
    if group._plain[key] ~= nil and value ~= nil then
      if type(value) ~= type(group._plain[key]) then
        fail("%s: %s must be a %s, not %s", group._name, key, type(group._plain[key]), options.describe_value(value))
      end
      group._plain[key] = value
      group._changed(group)
      return
    end
    local names = {}
    for name in pairs(group._tensors) do names[#names + 1] = name end
    for name in pairs(group._plain) do names[#names + 1] = name end
    table.sort(names)
    local near = options.nearest(tostring(key), names)
    fail("%s: a group has no '%s'%s", group._name, tostring(key), near and " (did you mean '" .. near .. "'?)" or "")
  elseif type(tensor) == "table" then
    if type(value) ~= "table" then fail("%s: %s takes two numbers", group._name, key) end
    for i = 1, 2 do write_number(group, group._name, key, tensor[i], value[i]) end
  else
    write_number(group, group._name, key, tensor, value)
  end
  group._changed(group)
end

local group_metatable = { __index = group_get, __newindex = group_set, __name = "param_group" }

---The 0-d tensor of a hyperparameter (two of them for a pair), to be written inside a step. From then on no formula
---assumes that it is 0.
---@return tensor|tensor[]
function Group:tensor(key)
  local tensor = self._tensors[key]
  if not tensor then fail("%s: '%s' is not a number of the group", self._name, tostring(key)) end
  self._moving[key] = true
  if self._zero[key] then
    self._zero[key] = false
    self._changed(self)
  end
  return tensor
end

---The tensor of a hyperparameter, for the optimizer's own reading.
function Group:value(key) return self._tensors[key] end

---Whether the host knows a hyperparameter to be 0, so that its term can be left out.
---@return boolean
function Group:is_zero(key)
  local zero = self._zero[key]
  if guards.active() then guards.note(self._zero, key, zero) end
  return zero
end

-- ---- The base class --------------------------------------------------------------------------------------

---@class optim.Optimizer
---@field param_groups table[] each with params and the hyperparameters as fields
---@field state table<tensor, table<string, tensor>>
local Optimizer = {}

---Describes an optimizer and returns its class. `spec`:
---  name; order: names of the hyperparameters after params, as PyTorch orders them; defaults: their values
---  check(where, o): raises on values that make no sense
---  state(p, group): names and tensors a parameter needs now (called again when a setting changes)
---  prepare(group): values that all parameters of a group share in a step; its results reach update
---  update(p, grad, state, group, shared): one parameter's step, in place
---@param spec table
function Optimizer.define(spec)
  local where = "optim." .. spec.name
  local class = { spec = spec, class_name = spec.name }
  class.__index = class
  class.__tostring = Optimizer.draw
  class.signature = options.signature(where, { "params" }, spec.order, spec.defaults)
  setmetatable(class, {
    __index = Optimizer,
    __call = function(_, ...)
      local o = class.signature(...)
      local params = o.params
      o.params = nil
      local self = setmetatable({ defaults = o, param_groups = {}, state = {} }, class)
      if is_tensor(params) then fail("%s: params is a list of tensors, not one tensor", where) end
      if type(params) ~= "table" or rawget(params, "_values") then
        fail("%s: params must be a list of tensors or of groups, not %s; pass model:parameters()", where,
          options.describe_value(params))
      end
      if #params == 0 then fail("%s: params is an empty list", where) end
      if not is_tensor(params[1]) then
        for _, group in ipairs(params) do self:add_param_group(group) end
      else
        self:add_param_group({ params = params })
      end
      return self
    end,
    __tostring = function() return "class " .. where end,
  })
  return class
end

local function check_params(self, where, params)
  if is_tensor(params) then params = { params } end
  if type(params) ~= "table" then fail("%s: a group's params must be a list of tensors", where) end
  local seen, list = {}, {}
  for _, group in ipairs(self.param_groups) do
    for _, p in ipairs(group.params) do seen[p] = true end
  end
  for i, p in ipairs(params) do
    if not is_tensor(p) then
      fail("%s: params[%d] is %s; expected a tensor", where, i, options.describe_value(p))
    elseif not p.is_leaf then
      fail("%s: params[%d] is a computed tensor; only leaves can be trained", where, i)
    elseif not p:is_floating_point() then
      fail("%s: params[%d] is %s; only floating tensors can be trained", where, i, p.dtype)
    elseif seen[p] then
      fail("%s: params[%d] is there twice, or in two groups", where, i)
    end
    seen[p] = true
    list[i] = p
  end
  return list
end

-- Raises where a hyperparameter is not of the kind that its default is.
local function check_kind(where, name, value, default)
  if type(default) == "table" then
    if type(value) ~= "table" or #value ~= 2 then fail("%s: %s takes two numbers", where, name) end
    for i = 1, 2 do options.number(where, name .. "[" .. i .. "]", value[i]) end
  elseif type(default) == "number" and not is_tensor(value) then
    options.number(where, name, value)
  elseif type(default) == "boolean" then
    options.boolean(where, name, value)
  end
end

---Adds parameters with hyperparameters of their own: {params = list, lr = ...}.
---@param given table
function Optimizer:add_param_group(given)
  local spec = self.spec
  local where = "optim." .. spec.name
  if type(given) ~= "table" or given.params == nil then
    fail("%s: a group is a table with params and, if need be, options of its own", where)
  end
  local settings, known = {}, { params = options.none }
  for name, value in pairs(self.defaults) do settings[name] = value end
  for _, name in ipairs(spec.order) do known[name] = options.none end
  for name, value in pairs(options.check(given, known, where)) do settings[name] = value end
  local params = check_params(self, where, given.params)
  settings.params = nil
  for _, name in ipairs(spec.order) do check_kind(where, name, settings[name], spec.defaults[name]) end
  if spec.check then spec.check(where, settings) end
  local group = { params = params, _name = where, _plain = {}, _tensors = {}, _zero = {}, _moving = {} }
  group._changed = function(changed) self:prepare_state(changed) end
  for _, name in ipairs(spec.order) do
    local value = settings[name]
    if type(value) == "table" then
      group._tensors[name] = { scalar(value[1]), scalar(value[2]) }
    elseif is_tensor(value) then
      group._tensors[name] = scalar(0):copy_(value:detach():reshape({}))
      group._zero[name] = false
    elseif type(value) == "number" then
      group._tensors[name] = scalar(value)
      group._zero[name] = value == 0
    else
      group._plain[name] = value
    end
  end
  self.param_groups[#self.param_groups + 1] = setmetatable(group, group_metatable)
  self:prepare_state(group)
end

-- Makes what the parameters of a group lack of state.
function Optimizer:prepare_state(group)
  local make = self.spec.state
  if not make then return end
  for _, p in ipairs(group.params) do
    local state = self.state[p]
    if not state then
      state = {}
      self.state[p] = state
    end
    core.no_grad(make, p, group, state)
  end
end

---State exists from construction on; kept for scripts that call it before tracing.
function Optimizer:preinitialize()
  for _, group in ipairs(self.param_groups) do self:prepare_state(group) end
end

---Forgets the gradients of all parameters, or sets them to zero.
---@param set_to_none boolean? default true
function Optimizer:zero_grad(set_to_none)
  if type(set_to_none) == "table" then
    set_to_none = options.check(set_to_none, { set_to_none = true }, "zero_grad").set_to_none
  end
  for _, group in ipairs(self.param_groups) do
    for _, p in ipairs(group.params) do
      if set_to_none ~= false then
        p.grad = nil
      else
        local grad = p.grad
        if grad then grad:zero_() end
      end
    end
  end
end

local function update_all(self)
  local spec = self.spec
  for _, group in ipairs(self.param_groups) do
    local shared = spec.prepare and spec.prepare(group)
    local maximize = group._plain.maximize ~= nil and group.maximize
    for _, p in ipairs(group.params) do
      local grad = p.grad
      if grad then
        if maximize then grad = -grad end
        spec.update(p, grad, self.state[p], group, shared)
      elseif modules.replaced[p] then
        fail("optim.%s: the model was converted to another dtype after this optimizer was made, so that its parameters "
          .. "are new tensors; make the optimizer after the conversion", spec.name)
      end
    end
  end
end

---Moves every parameter that has a gradient. A closure, if given, is called first and its loss returned.
---@param closure (fun(): tensor)?
function Optimizer:step(closure)
  local loss = closure and closure()
  core.no_grad(update_all, self)
  return loss
end

-- ---- State -----------------------------------------------------------------------------------------------

-- fn(index from 0, parameter) over all groups.
local function each_param(self, fn)
  local index = 0
  for _, group in ipairs(self.param_groups) do
    for _, p in ipairs(group.params) do
      fn(index, p)
      index = index + 1
    end
  end
end

---What a checkpoint keeps, laid out as PyTorch's: state by the parameter's number (from 0), and param_groups.
function Optimizer:state_dict()
  local state, groups, index = {}, {}, 0
  each_param(self, function(i, p)
    local copy
    for name, tensor in pairs(self.state[p] or {}) do
      copy = copy or {}
      copy[name] = tensor:detach()
    end
    state[i] = copy
  end)
  for g, group in ipairs(self.param_groups) do
    local plain = { params = {} }
    for i = 1, #group.params do
      plain.params[i] = index
      index = index + 1
    end
    for name, value in pairs(group._plain) do plain[name] = value end
    for name, tensor in pairs(group._tensors) do
      plain[name] = is_tensor(tensor) and tensor:item() or { tensor[1]:item(), tensor[2]:item() }
    end
    groups[g] = plain
  end
  return { state = state, param_groups = groups }
end

---Takes over state and hyperparameters. Nothing is changed when the layout does not fit.
function Optimizer:load_state_dict(dict)
  local where = "optim." .. self.spec.name .. ":load_state_dict"
  if type(dict) ~= "table" or type(dict.state) ~= "table" or type(dict.param_groups) ~= "table" then
    fail("%s: expected a table with state and param_groups", where)
  end
  if #dict.param_groups ~= #self.param_groups then
    fail("%s: the state has %d groups, the optimizer %d", where, #dict.param_groups, #self.param_groups)
  end
  for g, group in ipairs(self.param_groups) do
    local saved = dict.param_groups[g]
    local params = saved.params
    local count = is_tensor(params) and params:numel() or type(params) == "table" and #params or 0
    if count ~= #group.params then
      fail("%s: group %d has %d parameters in the state, %d in the optimizer", where, g, count, #group.params)
    end
    for _, name in ipairs(self.spec.order) do
      if saved[name] ~= nil then check_kind(where, name, saved[name], self.spec.defaults[name]) end
    end
  end
  local writes = {}
  each_param(self, function(index, p)
    local saved = dict.state[index] or dict.state[tostring(index)] or {}
    local own = self.state[p] or {}
    for name, value in pairs(saved) do
      local tensor = own[name]
      if is_tensor(tensor) and not is_tensor(value) then value = scalar(value) end
      if not is_tensor(tensor) then
        -- not kept under these settings, or state of a setting that the groups below bring
        writes[#writes + 1] = { p = p, name = name, value = value }
      elseif options.shape_text(tensor) ~= options.shape_text(value) then
        fail("%s: state %d.%s is %s, expected %s", where, index, name, options.shape_text(value),
          options.shape_text(tensor))
      else
        writes[#writes + 1] = { tensor = tensor, value = value }
      end
    end
  end)
  for g, group in ipairs(self.param_groups) do
    local saved = dict.param_groups[g]
    for _, name in ipairs(self.spec.order) do
      if saved[name] ~= nil then group[name] = saved[name] end
    end
  end
  core.no_grad(function()
    for _, write in ipairs(writes) do
      local tensor = write.tensor or (self.state[write.p] or {})[write.name]
      if is_tensor(tensor) then tensor:copy_(write.value) end
    end
  end)
end

---The optimizer and its groups as text.
function Optimizer:draw()
  local lines = { self.spec.name }
  for g, group in ipairs(self.param_groups) do
    local parts = {}
    for _, name in ipairs(self.spec.order) do
      local tensor = group._tensors[name]
      local text
      if core.tracing() and tensor then text = "?"
      elseif type(tensor) == "table" then text = ("{%g, %g}"):format(tensor[1]:item(), tensor[2]:item())
      elseif tensor then text = ("%g"):format(tensor:item())
      else text = tostring(group._plain[name]) end
      parts[#parts + 1] = name .. "=" .. text
    end
    lines[#lines + 1] = ("  group %d: %d tensors, %s"):format(g, #group.params, table.concat(parts, ", "))
  end
  return table.concat(lines, "\n")
end

return Optimizer
