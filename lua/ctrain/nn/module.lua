-- module.lua: the base of layers and models. A module is an object whose attributes may be parameters, buffers
-- and other modules; they are found by assignment, in the order of assignment, and named as PyTorch names them.
-- (Lua carries out `self.a, self.b = x, y` from right to left: give each layer its own line.)
--
--     local Net = nn.class("Net")
--     function Net:init(width) self.fc = nn.Linear(width, 10) end
--     function Net:forward(x) return self.fc(x) end
--     local net = Net(64)
--
-- All attributes live in object._values, so that each assignment passes __newindex; list items (object[1] ...)
-- are raw, so that ipairs and # work, and are modules named from 0.

local core = require "ctrain.core"
local guards = require "ctrain.guards"
local options = require "ctrain.options"

local fail, is_tensor, shape_text = options.fail, options.is_tensor, options.shape_text
local find_class

-- Tensors that are parameters, and buffers (true: saved with the state, false: not).
local parameters = setmetatable({}, { __mode = "k" })
local buffers = setmetatable({}, { __mode = "k" })
-- Parameters that a conversion has put others in the place of.
local replaced = setmetatable({}, { __mode = "k" })

---@class nn.Module
---@field training boolean
local Module = {}

local function is_module(value)
  return type(value) == "table" and rawget(value, "_values") ~= nil
end

---Makes a tensor a parameter: an attribute that optimizers train and state_dict names.
---@param tensor tensor
---@param requires_grad boolean? default true
---@return tensor
local function Parameter(tensor, requires_grad)
  options.tensor("nn.Parameter", "the value", tensor)
  if requires_grad == nil then requires_grad = tensor:is_floating_point() end
  -- a computed tensor, or a part of another, becomes a tensor of its own
  if not tensor.is_leaf or not pcall(tensor.requires_grad_, tensor, requires_grad) then
    tensor = tensor:detach():clone():requires_grad_(requires_grad)
  end
  parameters[tensor] = true
  return tensor
end

---Makes a tensor a buffer: an attribute that state_dict names (unless not persistent) and nobody trains.
---@param tensor tensor
---@param persistent boolean? default true
---@return tensor
local function Buffer(tensor, persistent)
  options.tensor("nn.Buffer", "the value", tensor)
  buffers[tensor] = persistent ~= false
  return tensor
end

-- ---- Classes ---------------------------------------------------------------------------------------------

-- The reader of attributes of a class's objects.
local function getter(class)
  return function(object, key)
    local value = object._values[key]
    if value == nil then return class[key] end
    if guards.active() then
      local kind = type(value)
      if kind == "boolean" or kind == "number" or kind == "string" then
        guards.note(object._values, key, value)
      end
    end
    return value
  end
end

local function set(object, key, value)
  if type(key) == "number" then
    rawset(object, key, value)
    return
  end
  local values = object._values
  if values[key] == nil and value ~= nil then
    if type(key) ~= "string" or key == "" or key:find(".", 1, true) then
      fail("%s: '%s' can't name an attribute", find_class(object).class_name, tostring(key))
    end
    local order = object._order
    local known = false
    for i = 1, #order do known = known or order[i] == key end
    if not known then order[#order + 1] = key end
  end
  values[key] = value
end

-- Modules being run, outermost first, so that an error can name the layer's path.
local running = {}

local function path_of_running()
  local root, last = running[1], running[#running]
  if root == last then return nil end
  for name, module in root:named_modules() do
    if module == last then return name end
  end
end

local function explain(message)
  local last = running[#running]
  local path = last and path_of_running()
  for i = #running, 1, -1 do running[i] = nil end
  if type(message) ~= "string" or not path then return message end
  local place, text = message:match("^([^\n]-:%d+: )(.*)$")
  return ("%slayer '%s' (%s): %s"):format(place or "", path, find_class(last).class_name, text or message)
end

local function leave(...)
  running[#running] = nil
  return ...
end

local function leave_outermost(ok, ...)
  running[1] = nil
  if not ok then error(..., 0) end
  return ...
end

local function call(object, ...)
  local forward = object.forward
  if not forward then fail("%s: has no forward method", find_class(object).class_name) end
  running[#running + 1] = object
  if #running > 1 then return leave(forward(object, ...)) end
  return leave_outermost(xpcall(forward, explain, object, ...))
end

local classes = setmetatable({}, { __mode = "k" }) -- metatable of instances = class

find_class = function(object) return classes[getmetatable(object)] end

local function construct(class, ...)
  local object = setmetatable({ _values = { training = true }, _order = {} }, rawget(class, "instance_metatable"))
  object:init(...)
  return object
end

-- Makes a class of a table of methods.
local function become_class(class, name, parent)
  class.class_name, class.super = name, parent
  local metatable = {
    __index = getter(class),
    __newindex = set,
    __call = call,
    __tostring = function(object) return object:draw() end,
    __name = name,
  }
  class.instance_metatable = metatable
  classes[metatable] = class
  return setmetatable(class, {
    __index = parent,
    __call = construct,
    __tostring = function() return "class " .. name end,
  })
end

---A new class of modules. Give it init and forward; calling the class makes an object.
---@param name string
---@param parent table? default nn.Module
---@return table
local function class(name, parent)
  if type(name) ~= "string" then fail("nn.class: the name must be a string, not a %s", type(name)) end
  return become_class({}, name, parent or Module)
end

---A subclass: local Wide = nn.Linear:extend("Wide").
---@return table
function Module:extend(name) return class(name, self) end

---What a class does with its arguments when an object is made; nothing here.
function Module.init(_) end

-- ---- Walking ---------------------------------------------------------------------------------------------

-- Named tensors of one kind among a module's own attributes.
local function own(object, kind, fn)
  for _, name in ipairs(object._order) do
    local value = object._values[name]
    if is_tensor(value) and kind[value] ~= nil then fn(name, value) end
  end
end

-- fn(name, module) for each child in order: attributes, items of attributes that are lists, and own items.
local function each_child(object, fn)
  for _, name in ipairs(object._order) do
    local value = object._values[name]
    if is_module(value) then
      fn(name, value)
    elseif type(value) == "table" and getmetatable(value) == nil then
      for i, item in ipairs(value) do
        if is_module(item) then fn(name .. "." .. (i - 1), item) end
      end
    end
  end
  for i = 1, #object do
    local item = rawget(object, i)
    if is_module(item) then fn(tostring(i - 1), item) end
  end
end

local function join(prefix, name)
  return prefix == "" and name or prefix .. "." .. name
end

-- fn(path, module) for the module and all below it; `seen` leaves out what came before.
local function walk(object, path, seen, fn)
  if seen then
    if seen[object] then return end
    seen[object] = true
  end
  fn(path, object)
  each_child(object, function(name, child) walk(child, join(path, name), seen, fn) end)
end

local function iterator(names, values)
  local i = 0
  return function()
    i = i + 1
    return names[i], values[i]
  end
end

local function collect(object, kind)
  local names, values, seen = {}, {}, {}
  walk(object, "", {}, function(path, module)
    own(module, kind, function(name, tensor)
      if seen[tensor] then return end
      seen[tensor] = true
      names[#names + 1], values[#values + 1] = join(path, name), tensor
    end)
  end)
  return names, values
end

---for name, parameter in model:named_parameters() do; a shared one comes once.
function Module:named_parameters() return iterator(collect(self, parameters)) end

---@return tensor[] list of all parameters, in order
function Module:parameters()
  local _, values = collect(self, parameters)
  return values
end

---for name, buffer in model:named_buffers() do
function Module:named_buffers() return iterator(collect(self, buffers)) end

---@return tensor[]
function Module:buffers()
  local _, values = collect(self, buffers)
  return values
end

---for path, module in model:named_modules() do; the model itself comes first, as "".
function Module:named_modules()
  local names, values = {}, {}
  walk(self, "", {}, function(path, module)
    names[#names + 1], values[#values + 1] = path, module
  end)
  return iterator(names, values)
end

---@return table[]
function Module:modules()
  local values = {}
  walk(self, "", {}, function(_, module) values[#values + 1] = module end)
  return values
end

---for name, module in model:named_children() do
function Module:named_children()
  local names, values = {}, {}
  each_child(self, function(name, child)
    names[#names + 1], values[#values + 1] = name, child
  end)
  return iterator(names, values)
end

---@return table[]
function Module:children()
  local values = {}
  each_child(self, function(_, child) values[#values + 1] = child end)
  return values
end

---The module at a path such as "encoder.2.attn".
function Module:get_submodule(path)
  for name, module in self:named_modules() do
    if name == path then return module end
  end
  fail("%s: has no module '%s'", find_class(self).class_name, tostring(path))
end

-- ---- Changing --------------------------------------------------------------------------------------------

---Makes an attribute a buffer; as self.name = nn.Buffer(tensor, persistent).
function Module:register_buffer(name, tensor, persistent)
  self[name] = tensor and Buffer(tensor, persistent)
end

---Makes an attribute a parameter; as self.name = nn.Parameter(tensor).
function Module:register_parameter(name, tensor)
  self[name] = tensor and Parameter(tensor)
end

---Adds a child under a name that need not be an identifier.
function Module:add_module(name, module)
  if not is_module(module) then fail("add_module: '%s' must be a module", tostring(name)) end
  self[name] = module
end

---Calls fn on every module below, and on this one last.
function Module:apply(fn)
  if type(fn) ~= "function" then fail("apply: expected a function, not %s", options.describe_value(fn)) end
  each_child(self, function(_, child) child:apply(fn) end)
  fn(self)
  return self
end

---Training mode (dropout drops, batch norm measures), here and below.
---@param mode boolean? default true
function Module:train(mode)
  if mode == nil then mode = true end
  options.boolean("train", "mode", mode)
  walk(self, "", {}, function(_, module) module.training = mode end)
  return self
end

---Evaluation mode, here and below.
function Module:eval() return self:train(false) end

---@param requires_grad boolean? default true
function Module:requires_grad_(requires_grad)
  for _, p in ipairs(self:parameters()) do p.requires_grad = requires_grad ~= false end
  return self
end

---Forgets all gradients, or sets them to zero.
---@param set_to_none boolean? default true
function Module:zero_grad(set_to_none)
  for _, p in ipairs(self:parameters()) do
    if set_to_none ~= false then p.grad = nil elseif p.grad then p.grad:zero_() end
  end
end

-- Replaces floating parameters and buffers by convert(tensor); shared ones stay shared. Optimizers are made after.
local function convert_tensors(self, convert)
  local converted = {}
  walk(self, "", {}, function(_, module)
    for _, name in ipairs(module._order) do
      local old = module._values[name]
      if is_tensor(old) and (parameters[old] or buffers[old] ~= nil) and old:is_floating_point() then
        local new = converted[old]
        if not new then
          new = convert(old)
          if parameters[old] then new = Parameter(new, old.requires_grad) else buffers[new] = buffers[old] end
          converted[old] = new
          replaced[old] = new ~= old or nil
        end
        module._values[name] = new
      end
    end
  end)
  return self
end

---Floating parameters and buffers in another dtype. Make the optimizer afterwards: the tensors are new ones.
---@param dtype string
function Module:to(dtype)
  if dtype ~= "float16" and dtype ~= "bfloat16" and dtype ~= "float32" and dtype ~= "float64" then
    fail("%s:to: expected a floating dtype, not %s", find_class(self).class_name, options.describe_value(dtype))
  end
  return convert_tensors(self, function(t) return t.dtype == dtype and t or t:detach():to(dtype) end)
end

function Module:double() return self:to("float64") end

function Module:float() return self:to("float32") end

function Module:bfloat16() return self:to("bfloat16") end

function Module:half() return self:to("float16") end

-- ---- State -----------------------------------------------------------------------------------------------

-- fn(name, tensor) for all that is saved, a shared tensor under each of its names.
local function each_state(object, fn)
  walk(object, "", nil, function(path, module)
    own(module, parameters, function(name, tensor) fn(join(path, name), tensor) end)
    own(module, buffers, function(name, tensor)
      if buffers[tensor] then fn(join(path, name), tensor) end
    end)
  end)
end

---Parameters and persistent buffers by name, as PyTorch names them. The tensors are the model's own: clone what
---should stay as it is.
---@return table<string, tensor>
function Module:state_dict()
  local state = {}
  each_state(self, function(name, tensor) state[name] = tensor:detach() end)
  return state
end

local function listed(names)
  table.sort(names)
  local shown = {}
  for i = 1, math.min(#names, 8) do shown[i] = names[i] end
  if #names > 8 then shown[#shown + 1] = ("and %d more"):format(#names - 8) end
  return table.concat(shown, ", ")
end

---Copies values into the model's tensors. Nothing is changed when something does not fit.
---@param state table<string, tensor>
---@param strict boolean? default true: names must match exactly
---@return table result its missing_keys and unexpected_keys
function Module:load_state_dict(state, strict)
  if type(strict) == "table" then
    strict = options.check(strict, { strict = true }, "load_state_dict").strict
  end
  if type(state) ~= "table" then fail("load_state_dict: expected a table of tensors, not %s", type(state)) end
  local missing, unexpected, wrong, known, writes = {}, {}, {}, {}, {}
  each_state(self, function(name, tensor)
    local value = state[name]
    known[name] = true
    if value == nil then
      missing[#missing + 1] = name
    elseif not is_tensor(value) then
      wrong[#wrong + 1] = ("%s is a %s, expected a tensor"):format(name, type(value))
    elseif shape_text(value) ~= shape_text(tensor) then
      wrong[#wrong + 1] = ("%s is %s, expected %s"):format(name, shape_text(value), shape_text(tensor))
    else
      writes[#writes + 1] = { tensor, value }
    end
  end)
  for name in pairs(state) do
    if not known[name] then unexpected[#unexpected + 1] = tostring(name) end
  end
  local problems = {}
  if strict ~= false and #missing > 0 then problems[#problems + 1] = "missing: " .. listed(missing) end
  if strict ~= false and #unexpected > 0 then problems[#problems + 1] = "unexpected: " .. listed(unexpected) end
  if #wrong > 0 then problems[#problems + 1] = "wrong: " .. listed(wrong) end
  if #problems > 0 then
    fail("load_state_dict: the state does not fit %s\n  %s", find_class(self).class_name,
      table.concat(problems, "\n  "))
  end
  core.no_grad(function()
    for _, write in ipairs(writes) do write[1]:copy_(write[2]) end
  end)
  return { missing_keys = missing, unexpected_keys = unexpected }
end

become_class(Module, "Module")

return {
  Module = Module, Parameter = Parameter, Buffer = Buffer, class = class, is_module = is_module,
  is_parameter = function(tensor) return parameters[tensor] == true end,
  each_child = each_child, own = own, parameters = parameters, buffers = buffers, class_of = find_class,
  replaced = replaced,
}
