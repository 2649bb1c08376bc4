-- help.lua: help(x) prints what a function, a class or a table of ctrain holds and takes. It writes nothing down a
-- second time: signatures come from the readers of arguments, descriptions from the comments above definitions, and
-- those of the core's functions from the annotations in types.lua.

local core = require "ctrain.core"
local options = require "ctrain.options"

local help = {}

-- ---- Sources ---------------------------------------------------------------------------------------------

local texts = {}

-- The lines of a file, by the name that its chunk has; false where it can't be read.
local function lines_of(source)
  local name = source:match("^@(.*)$")
  if not name then return false end
  if texts[name] == nil then
    local text = core.source and core.source(name)
    local file = not text and io.open(name, "r")
    if file then
      text = file:read("*a")
      file:close()
    end
    local lines = {}
    for line in (text or ""):gmatch("([^\n]*)\n") do lines[#lines + 1] = line end
    texts[name] = text and lines or false
  end
  return texts[name]
end

-- The lines of one of ctrain's own modules: "ctrain.nn".
local function lines_of_module(name)
  local path = name:gsub("%.", "/")
  if core.source then return lines_of("@" .. path .. ".lua") or lines_of("@" .. path .. "/init.lua") end
  local found = package.searchpath(name, package.path)
  return found and lines_of("@" .. found)
end

-- A line of a comment as help shows it, or nil for what only editors read.
local function shown(line)
  local text = line:match("^%s*%-%-+%s?(.*)$")
  local tag, rest = text:match("^@(%w+)%s*(.*)$")
  if not tag then return text end
  if tag == "return" then return "gives " .. rest end
  if tag ~= "param" then return nil end
  local name, kind, more = rest:match("^(%S+)%s+(%S+)%s*(.*)$")
  return name and ("%s: %s%s"):format(name, kind, more ~= "" and ", " .. more or "") or rest
end

-- The comment that stands right above a line.
local function comment_above(lines, at)
  local first = at
  while first > 1 and lines[first - 1]:find("^%s*%-%-") and not lines[first - 1]:find("^%-%- %-%-%-%-") do
    first = first - 1
  end
  local result = {}
  for i = first, at - 1 do result[#result + 1] = shown(lines[i]) end
  return result
end

-- What a file says about itself in its first lines.
local function header(lines)
  local result = {}
  for i, line in ipairs(lines) do
    local text = line:match("^%-%-%s?(.*)$")
    if not text or text == "" then break end
    result[i] = i == 1 and text:gsub("^[%w_/.]+: ", "") or text
  end
  return result
end

-- ---- Annotations of the core -----------------------------------------------------------------------------

local annotations

-- Splits "tensor, tensor? what it is" into types and text.
local function split_types(rest)
  local kinds = {}
  local after = rest:match("^:%s*(.*)$")
  if not after then return "", rest:match("^%s*(.*)$") end
  while true do
    local kind, comma, more = after:match("^([^%s,]+)(,?)%s*(.*)$")
    if not kind then break end
    kinds[#kinds + 1], after = kind, more
    if comma == "" then break end
  end
  return table.concat(kinds, ", "), after
end

-- Reads types.lua: annotations[class][name] = { arguments =, result =, text = }, and the names of its types.
local function read_annotations()
  if annotations then return annotations end
  annotations = { tensor = {}, ctrain = {}, aliases = {} }
  local class
  for _, line in ipairs(lines_of_module "ctrain.types" or {}) do
    class = line:match("^%-%-%-@class (%w+)") or class
    local alias, meaning = line:match("^%-%-%-@alias (%w+) (.*)$")
    if alias then annotations.aliases[alias] = meaning end
    local name, rest = line:match("^%-%-%-@field ([%w_]+) (.*)$")
    if name and annotations[class] then
      local arguments, after = rest:match("^fun(%b())(.*)$")
      local result, text = split_types(arguments and after or ": " .. rest)
      annotations[class][name] = {
        arguments = arguments and arguments:gsub("^%(self: tensor,? ?", "("), result = result, text = text,
      }
    end
  end
  return annotations
end

-- ---- Names -----------------------------------------------------------------------------------------------

local names

local function add_names(path, list, separator)
  for key, value in next, list do
    local kind = type(value)
    if type(key) == "string" and not key:find("^_") and (kind == "function" or kind == "table") then
      names[value] = names[value] or path .. separator .. key
    end
  end
end

-- What a function or table of ctrain is called, or nil.
local function name_of(value)
  if not names then
    local ct = require "ctrain"
    names = { [ct] = "ct", [core.Tensor] = "tensor" }
    add_names("t", core.Tensor, ":")
    add_names("ct.nn", ct.nn, ".")
    for _, part in ipairs { "functional", "init", "utils" } do add_names("ct.nn." .. part, ct.nn[part], ".") end
    add_names("ct.optim", ct.optim, ".")
    add_names("ct.utils.data", ct.utils.data, ".")
    add_names("ct.utils", ct.utils, ".")
    for _, lazy in ipairs(debug.getmetatable(ct).names()) do local _ = ct[lazy] end
    add_names("ct", ct, ".")
  end
  return names[value]
end

-- ---- Descriptions ----------------------------------------------------------------------------------------

local function add_all(lines, more, indent)
  for _, line in ipairs(more) do lines[#lines + 1] = line == "" and "" or (indent or "  ") .. line end
end

-- The names of a Lua function's parameters.
local function parameters(fn)
  local list, info = {}, debug.getinfo(fn, "u")
  for i = 1, info.nparams or 0 do list[i] = debug.getlocal(fn, i) end
  if info.isvararg then list[#list + 1] = "..." end
  return list
end

-- The signature of the reader of arguments that a function uses, if it uses one.
local function reader_signature(fn)
  for i = 1, 60 do
    local name, value = debug.getupvalue(fn, i)
    if not name then return nil end
    local text = type(value) == "function" and options.describe(value)
    if text then return text end
  end
end

local function describe_core(name, lines)
  local known = read_annotations()
  local base = name:gsub("^ct%.", ""):gsub("^t:", "")
  local entry, method = known.tensor[base], true
  if entry and not entry.arguments then entry = nil end -- a field, as grad
  local in_place = not entry and known.tensor[base:match("^(.*)_$") or ""]
  entry = entry or in_place
  if not entry then entry, method = known.ctrain[base], false end
  if not entry then
    lines[#lines + 1] = name .. "(...)"
    return
  end
  lines[#lines + 1] = (method and "t:" or "ct.") .. base .. (entry.arguments or "()")
    .. (entry.result ~= "" and ": " .. entry.result or "")
  if entry.text ~= "" then lines[#lines + 1] = "  " .. entry.text end
  if in_place then lines[#lines + 1] = "  writes its result into t" end
  if method then
    local more = entry.arguments == "()" and "" or ", ..."
    lines[#lines + 1] = ("  also as ct.%s(t%s)"):format(base, more)
  end
  local seen = {}
  for word in (entry.arguments or ""):gmatch("%w+") do
    if known.aliases[word] and not seen[word] and not (entry.arguments:find(word .. ":", 1, true)) then
      seen[word] = true
      lines[#lines + 1] = ("  %s: %s"):format(word, (known.aliases[word]:gsub("|", " | ")))
    end
  end
end

local function describe_function(fn, lines)
  local info, name = debug.getinfo(fn, "S"), name_of(fn)
  if info.what == "C" then
    if name then describe_core(name, lines) else lines[1] = "a function written in C" end
    return
  end
  local list = parameters(fn)
  local method = name and name:find("^t:") and table.remove(list, 1)
  lines[#lines + 1] = reader_signature(fn) or (name or "function") .. "(" .. table.concat(list, ", ") .. ")"
  local source = lines_of(info.source)
  if source then add_all(lines, comment_above(source, info.linedefined)) end
  if method then lines[#lines + 1] = ("  also as ct.%s(t%s)"):format(name:sub(3), #list > 0 and ", ..." or "") end
  if not name then lines[#lines + 1] = ("  defined at %s:%d"):format(info.short_src, info.linedefined) end
end

-- Names in a list, in lines of at most 100 columns.
local function wrap(title, list, lines)
  if #list == 0 then return end
  table.sort(list)
  local line = "  " .. title .. ":"
  for _, name in ipairs(list) do
    if #line + #name > 98 then
      lines[#lines + 1] = line
      line = "   "
    end
    line = line .. " " .. name
  end
  lines[#lines + 1] = line
end

local function is_callable_table(value)
  local metatable = type(value) == "table" and debug.getmetatable(value)
  return type(metatable) == "table" and rawget(metatable, "__call") ~= nil
end

local function list_fields(value, lines)
  local classes, functions, others = {}, {}, {}
  for key, item in next, value do
    local twin = type(key) == "string" and key:match("^(.*)_$") -- add_, where add is listed
    if type(key) == "string" and not key:find("^_") and key ~= "signature" and not (twin and rawget(value, twin)) then
      local list = is_callable_table(item) and classes or type(item) == "function" and functions or others
      list[#list + 1] = key
    end
  end
  wrap("classes", classes, lines)
  wrap("functions", functions, lines)
  wrap("fields", others, lines)
end

-- The function that fills a class's new objects: its init, or what its __call is made with.
local function maker(class)
  local init, call = rawget(class, "init"), debug.getmetatable(class)
  call = type(call) == "table" and rawget(call, "__call")
  for i = 1, init == nil and type(call) == "function" and 60 or 0 do
    local name, value = debug.getupvalue(call, i)
    if not name then break end
    if name == "construct" and type(value) == "function" then return value end
  end
  return init
end

-- What a class's objects are made from: its signature, or the parameters of init.
local function describe_class(class, lines)
  local init = maker(class)
  local signature = rawget(class, "signature")
  local name = name_of(class) or rawget(class, "class_name") or "class"
  local text = signature and options.describe(signature)
  if not text then
    local list = type(init) == "function" and debug.getinfo(init, "S").what ~= "C" and parameters(init) or { "..." }
    if list[1] == "self" then table.remove(list, 1) end
    text = ("%s(%s)"):format(name, table.concat(list, ", "))
  end
  lines[#lines + 1] = text:find("^ct%.") and text or name:find("^ct%.") and "ct." .. text or text
  for _, fn in ipairs { init or false, rawget(class, "forward") or false } do
    local info = type(fn) == "function" and debug.getinfo(fn, "S")
    local source = info and lines_of(info.source)
    if source then add_all(lines, comment_above(source, info.linedefined)) end
  end
  local spec = rawget(class, "spec")
  local update = type(spec) == "table" and rawget(spec, "update")
  local source = update and lines_of(debug.getinfo(update, "S").source)
  if source then add_all(lines, header(source)) end
  local methods = {}
  for key, item in next, class do
    if type(item) == "function" and type(key) == "string" and not key:find("^_") and item ~= signature
      and key ~= "init" then
      methods[#methods + 1] = key
    end
  end
  wrap("methods", methods, lines)
end

local function describe_table(value, lines)
  for name, loaded in next, package.loaded do
    local source = loaded == value and name:find("^ctrain") and lines_of_module(name)
    if source then
      lines[#lines + 1] = name_of(value) or name
      add_all(lines, header(source))
      list_fields(value, lines)
      return
    end
  end
  lines[#lines + 1] = name_of(value) or "a table"
  list_fields(value, lines)
end

local function describe_tensor(value, lines)
  local fields, methods = {}, {}
  for name, entry in next, read_annotations().tensor do
    if not entry.arguments then fields[#fields + 1] = name end
  end
  for name in next, core.Tensor do
    if not name:find("_$") and not name:find("^_") then methods[#methods + 1] = name end
  end
  lines[#lines + 1] = value and "a " .. options.describe_value(value):gsub("^a ", "") or "tensor"
  wrap("fields", fields, lines)
  wrap("methods (many also with _ at the end, in place)", methods, lines)
  lines[#lines + 1] = "  help \"t:sum\" tells about a method"
end

-- The value that a path of names leads to: "ct.nn.Linear", "nn.Linear", "t:sum", "sum".
local function find(path)
  local ct = require "ctrain"
  for _, root in ipairs { { ct = ct, t = core.Tensor, tensor = core.Tensor }, ct, core.Tensor, ct.nn, ct.optim,
    ct.nn.functional, _G } do
    local value = root
    for name in path:gmatch("[^.:%s]+") do
      if type(value) ~= "table" then
        value = nil
        break
      end
      value = (value == ct or value == ct.utils) and value[name] or rawget(value, name)
    end
    if value ~= nil and value ~= root then return value end
  end
end

local general = {
  "help(x) tells what a function, a class or a table takes and holds:",
  "  help(ct)            what ctrain has",
  "  help(ct.nn.Linear)  the arguments of a layer",
  "  help \"t:sum\"        a tensor's method",
  "Dimensions and positions count from 1, numbers inside tensors (labels, indexes) from 0.",
}

---What help prints about a value, as a list of lines.
---@return string[]
function help.lines(value)
  local lines, kind = {}, type(value)
  if kind == "string" then
    for _, dtype in ipairs(core.dtypes) do
      if value == dtype then
        return { ('the element type %s, as in ct.zeros(2, { dtype = "%s" })'):format(value, value) }
      end
    end
    local found = find(value)
    if found == nil then return { ("there is nothing called '%s'; help(ct) shows what there is"):format(value) } end
    value, kind = found, type(found)
  end
  if kind == "function" then
    describe_function(value, lines)
  elseif options.is_tensor(value) then
    describe_tensor(value, lines)
  elseif value == core.Tensor then
    describe_tensor(nil, lines)
  elseif kind == "table" and rawget(value, "_values") and require("ctrain.nn.module").is_module(value) then
    describe_class(require("ctrain.nn.module").class_of(value), lines)
  elseif is_callable_table(value) and value ~= help then
    describe_class(value, lines)
  elseif kind == "table" and value ~= help then
    describe_table(value, lines)
  elseif value == nil or value == help then
    return general
  else
    lines[1] = "a " .. kind .. ": " .. tostring(value)
  end
  return lines
end

-- Adds the text of a plain list to parts; false where it is none, or has no room left.
local function add_list(value, parts)
  if type(value) ~= "table" or debug.getmetatable(value) then return false end
  local count = 0
  for _ in next, value do count = count + 1 end
  if count == 0 then
    parts[#parts + 1] = "{}"
    return true
  end
  if count ~= #value then return false end
  parts[#parts + 1] = "{ "
  for i, item in ipairs(value) do
    if #parts > 200 then return false end
    if i > 1 then parts[#parts + 1] = ", " end
    local kind = type(item)
    if kind == "table" then
      if not add_list(item, parts) then return false end
    elseif kind == "number" or kind == "boolean" then
      parts[#parts + 1] = tostring(item)
    elseif kind == "string" then
      parts[#parts + 1] = ("%q"):format(item)
    else
      return false
    end
  end
  parts[#parts + 1] = " }"
  return true
end

---What the prompt prints for a value: the text of a short list, such as t.shape; all else as it is.
function help.shown(value)
  local parts = {}
  return add_list(value, parts) and table.concat(parts) or value
end

help.complete = require "ctrain.complete"

return setmetatable(help, {
  __call = function(_, value) print(table.concat(help.lines(value), "\n")) end,
  __tostring = function() return table.concat(general, "\n") end,
})
