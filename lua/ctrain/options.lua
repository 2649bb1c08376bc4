-- options.lua: reading the arguments of functions that are called positionally or with a last table of named
-- options, and the errors that say what is wrong with them. Every error of ctrain's Lua files is raised by
-- options.fail, which puts the user's own script line in front.

local core = require "ctrain.core"

local options = {}

---Raises an error at the user's script line.
---@param format string
function options.fail(format, ...)
  local text = select("#", ...) > 0 and format:format(...) or format
  local place = core.script_line()
  error(place and place ~= "" and place .. ": " .. text or text, 0)
end

local fail = options.fail

-- Edits (insert, delete, replace, swap of neighbours) that turn a into b.
local function distance(a, b)
  local before, last = {}, {}
  for j = 0, #b do last[j] = j end
  for i = 1, #a do
    local row = { [0] = i }
    for j = 1, #b do
      local cost = a:byte(i) == b:byte(j) and 0 or 1
      row[j] = math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + cost)
      if i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
        row[j] = math.min(row[j], before[j - 2] + 1)
      end
    end
    before, last = last, row
  end
  return last[#b]
end

---The name in `names` that `name` was probably meant to be, or nil.
---@param name string
---@param names string[]
---@return string?
function options.nearest(name, names)
  local best, least = nil, math.max(2, math.floor(#name / 3)) + 1
  for _, candidate in ipairs(names) do
    local d = distance(name:lower(), candidate:lower())
    if d < least and d < #candidate then best, least = candidate, d end
  end
  return best
end

local function unknown(where, what, name, names)
  local near = options.nearest(tostring(name), names)
  if near then fail("%s: unknown %s '%s' (did you mean '%s'?)", where, what, tostring(name), near) end
  if #names == 0 then fail("%s: unknown %s '%s'; it takes none", where, what, tostring(name)) end
  fail("%s: unknown %s '%s'; it takes %s", where, what, tostring(name), table.concat(names, ", "))
end

---Fills a table of named options with defaults and refuses names that are not among them.
---@param given table?
---@param defaults table<string, any> name = default; a default of options.none means: none
---@param where string the function's name, for errors
---@return table
function options.check(given, defaults, where)
  local result, names = {}, {}
  for name, default in pairs(defaults) do
    names[#names + 1] = name
    if default ~= options.none then result[name] = default end
  end
  if given == nil then return result end
  if type(given) ~= "table" then fail("%s: options are a table, not a %s", where, type(given)) end
  for name, value in pairs(given) do
    if defaults[name] == nil then
      table.sort(names)
      unknown(where, "option", name, names)
    end
    result[name] = value
  end
  return result
end

---Stands for "no default" in options.check.
options.none = setmetatable({}, { __tostring = function() return "none" end })

local function is_options(value)
  if type(value) ~= "table" or getmetatable(value) ~= nil then return false end
  local key = next(value)
  return key == nil or (type(key) == "string" and value[1] == nil)
end

local signatures = setmetatable({}, { __mode = "k" })

---Describes a function's arguments and returns a reader of them: reader(...) gives a table by name.
---@param where string the function's name, for errors and help
---@param required string[] names of the arguments that must be there, in order
---@param optional string[] names of those that may be, in order
---@param defaults table<string, any>? values of those that are not given
---@return fun(...): table
function options.signature(where, required, optional, defaults)
  local order, known = {}, {}
  for _, list in ipairs { required, optional } do
    for _, name in ipairs(list) do
      order[#order + 1] = name
      known[name] = true
    end
  end
  local function reader(...)
    local result, n = {}, select("#", ...)
    for name, default in pairs(defaults or {}) do result[name] = default end
    local last = select(n > 0 and n or 1, ...)
    -- an empty table in the place of a required argument is that argument
    local named = n > 0 and is_options(last) and (n > #required or next(last) ~= nil) and last or nil
    if named then n = n - 1 end
    if n > #order then fail("%s: takes at most %d arguments, got %d", where, #order, n) end
    for i = 1, n do
      local value = select(i, ...)
      if value ~= nil then result[order[i]] = value end
    end
    for name, value in pairs(named or {}) do
      if not known[name] then unknown(where, "option", name, order) end
      for i = 1, n do
        if order[i] == name then fail("%s: '%s' is given twice, by position and by name", where, name) end
      end
      result[name] = value
    end
    for _, name in ipairs(required) do
      if result[name] == nil then fail("%s: argument '%s' is missing", where, name) end
    end
    return result
  end
  local texts = {}
  for i, name in ipairs(order) do
    local default = defaults and defaults[name]
    if i <= #required then
      texts[i] = name
    elseif type(default) == "table" then
      local parts = {}
      for k, v in ipairs(default) do parts[k] = tostring(v) end
      texts[i] = name .. "={" .. table.concat(parts, ", ") .. "}"
    else
      texts[i] = name .. "=" .. tostring(default)
    end
  end
  signatures[reader] = where .. "(" .. table.concat(texts, ", ") .. ")"
  return reader
end

---The text of a reader's signature: "nn.Linear(in_features, out_features, bias=true)".
---@return string?
function options.describe(reader)
  return signatures[reader]
end

---@type fun(value: any): boolean
options.is_tensor = core.is_tensor

---"2x3", "scalar" for 0-d: a tensor's shape as errors and prints write it.
---@return string
function options.shape_text(shape)
  if options.is_tensor(shape) then shape = shape.shape end
  return #shape == 0 and "scalar" or table.concat(shape, "x")
end

---What an error calls a value.
---@return string
function options.describe_value(value)
  if options.is_tensor(value) then
    return ("a %s tensor of %s"):format(options.shape_text(value), value.dtype)
  elseif type(value) == "string" then
    return "'" .. value .. "'"
  elseif value ~= value then
    return "nan"
  elseif type(value) == "number" or type(value) == "boolean" or value == nil then
    return tostring(value)
  end
  return "a " .. type(value)
end

local show = options.describe_value

---A tensor, or an error.
function options.tensor(where, name, value)
  if not options.is_tensor(value) then fail("%s: %s must be a tensor, not %s", where, name, show(value)) end
  return value
end

---A whole number of at least `low`, given as 3 or 3.0.
---@return integer
function options.integer(where, name, value, low)
  if type(value) ~= "number" or value ~= math.floor(value) or value ~= value or math.abs(value) == math.huge then
    fail("%s: %s must be a whole number, not %s", where, name, show(value))
  elseif low and value < low then
    fail("%s: %s is %s; expected at least %d", where, name, show(value), low)
  end
  return math.floor(value)
end

---A number within [low, high]; either bound may be nil. NaN is refused.
---@return number
function options.number(where, name, value, low, high)
  if type(value) ~= "number" then fail("%s: %s must be a number, not %s", where, name, show(value)) end
  if value ~= value or (low and value < low) or (high and value > high) then
    local want = low and high and ("from %g to %g"):format(low, high)
      or low and ("%g or more"):format(low) or high and ("%g or less"):format(high) or "a number"
    fail("%s: %s is %s; expected %s", where, name, show(value), want)
  end
  return value
end

---@return boolean
function options.boolean(where, name, value)
  if type(value) ~= "boolean" then fail("%s: %s must be true or false, not %s", where, name, show(value)) end
  return value
end

---One of the strings in `choices`.
---@return string
function options.choice(where, name, value, choices)
  for _, choice in ipairs(choices) do
    if value == choice then return value end
  end
  unknown(where, name, value, choices)
end

---A dimension of a tensor with `ndim` dimensions, counted from 1 and negative from the end, as 1..ndim.
---@return integer
function options.dim(where, value, ndim, shape)
  local dim = options.integer(where, "dim", value)
  local count = math.max(ndim, 1)
  if dim == 0 or dim > count or dim < -count then
    fail("%s: dim %d is out of range for %s (dimensions count from 1)", where, dim,
      shape and "a " .. options.shape_text(shape) .. " tensor" or ndim .. " dimensions")
  end
  return dim > 0 and dim or count + dim + 1
end

return options
