-- containers.lua: modules made of a list of modules. Items are object[1], object[2] ... for ipairs and #, and
-- "0", "1" ... in state dicts, as PyTorch names them.

local modules = require "ctrain.nn.module"
local options = require "ctrain.options"

local fail = options.fail
local class, is_module = modules.class, modules.is_module

local function items_of(name, first, ...)
  local list = { first, ... }
  if type(first) == "table" and not is_module(first) and select("#", ...) == 0 then list = first end
  for i = 1, #list do
    if not is_module(list[i]) then
      fail("%s: item %d is %s; expected a module", name, i, options.describe_value(list[i]))
    end
  end
  return list
end

---@class nn.ModuleList: nn.Module
local ModuleList = class "ModuleList"

---@param ... table modules, or one list of them
function ModuleList:init(...)
  for i, item in ipairs(items_of("nn.ModuleList", ...)) do rawset(self, i, item) end
end

---Adds a module at the end.
function ModuleList:append(module)
  rawset(self, #self + 1, items_of("append", module)[1])
  return self
end

---Adds the modules of a list at the end.
function ModuleList:extend_with(list)
  for _, module in ipairs(items_of("extend_with", list)) do rawset(self, #self + 1, module) end
  return self
end

---@class nn.Sequential: nn.Module
local Sequential = class("Sequential", ModuleList)

---Runs modules one after the other.
---@param ... table modules, or one list of them
function Sequential:init(...)
  for i, item in ipairs(items_of("nn.Sequential", ...)) do rawset(self, i, item) end
end

function Sequential:forward(x)
  for i = 1, #self do x = rawget(self, i)(x) end
  return x
end

---@class nn.ModuleDict: nn.Module
local ModuleDict = class "ModuleDict"

---Modules by name, in the order of their names; add others with dict[name] = module.
---@param items table<string, table>?
function ModuleDict:init(items)
  local names = {}
  for name in pairs(items or {}) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do self:add_module(name, items[name]) end
end

return { ModuleList = ModuleList, Sequential = Sequential, ModuleDict = ModuleDict }
