-- complete.lua: what a text typed at a prompt may become: "ct.nn.Li" -> { "ct.nn.Linear" }, "x:su" -> { "x:sum" }.
-- Tables are read raw and metatables only where __index is a table, so no code of the user runs.

local core = require "ctrain.core"

local keywords = {
  "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local", "nil", "not", "or",
  "repeat", "return", "then", "true", "until", "while",
}
local fields = { "shape", "dtype", "ndim", "grad", "requires_grad", "is_leaf" }
local field_set = {}
for _, name in ipairs(fields) do field_set[name] = true end

-- A table's metatable where it is ctrain's own and names what it loads on demand.
local function lazy_names(metatable)
  local own = rawget(require "ctrain", "utils")
  if metatable == debug.getmetatable(require "ctrain") or metatable == debug.getmetatable(own) then
    return metatable.names()
  end
end

-- Calls visit(key, value) for what value.key can be, without running code. What is loaded on demand has no value yet.
local function each(value, visit)
  if core.is_tensor(value) then
    for _, name in ipairs(fields) do visit(name) end
    value = core.Tensor
  end
  for _ = 1, 20 do
    local metatable
    if type(value) == "table" then
      for key, item in next, value do visit(key, item) end
      -- the attributes of a layer, and then its class
      local attributes = rawget(value, "_values")
      if type(attributes) == "table" then
        for key, item in next, attributes do visit(key, item) end
        local class = require("ctrain.nn.module").class_of(value)
        if class then
          value = class
          for key, item in next, value do visit(key, item) end
        end
      end
    end
    metatable = debug.getmetatable(value)
    if type(metatable) ~= "table" then return end
    for _, name in ipairs(lazy_names(metatable) or {}) do visit(name) end
    value = rawget(metatable, "__index")
    if type(value) ~= "table" then return end
  end
end

-- The value of value.key, where it can be had without running code of the user.
local function child(value, key)
  if core.is_tensor(value) then
    if field_set[key] then return value[key] end
    return core.Tensor[key]
  end
  local metatable = debug.getmetatable(value)
  if type(value) == "table" and type(metatable) == "table" and lazy_names(metatable) then return value[key] end
  local found
  each(value, function(name, item)
    if name == key and found == nil then found = item end
  end)
  return found
end

---What `text` may become, sorted.
---@param text string
---@return string[]
local function complete(text)
  local path, separator, prefix = text:match("^(.-)([.:]?)([%a_\128-\255]?[%w_\128-\255]*)$")
  if not path or (path ~= "" and separator == "") then return {} end
  local value = _G
  if separator ~= "" then
    if path == "" then return {} end
    for name in path:gmatch("[^.:]+") do
      value = child(value, name)
      if value == nil then return {} end
    end
  end
  local list, seen = {}, {}
  local function offer(name, item)
    if type(name) ~= "string" or seen[name] or name:sub(1, #prefix) ~= prefix or not name:find("^[%a_][%w_]*$") then
      return
    end
    if name:sub(1, 1) == "_" and prefix:sub(1, 1) ~= "_" then return end
    if separator == ":" and type(item) ~= "function" then return end
    seen[name] = true
    list[#list + 1] = path .. separator .. name
  end
  each(value, offer)
  if separator == "" then
    for _, keyword in ipairs(keywords) do offer(keyword) end
  end
  table.sort(list)
  return list
end

return complete
