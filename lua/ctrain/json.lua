-- json.lua: JSON texts, strictly read (RFC 8259), with what checkpoints need beyond it: integers stay integers, all
-- 64 bits (an int64 cdata beyond 2^53 on LuaJIT), numbers with a point or an exponent are floats, and NaN, Infinity
-- and -Infinity are numbers, as Python's json module writes them. An object keeps the order of its keys in
-- json.keys(object); null is json.null.

local json = {}

local has_integers = math.type ~= nil
local ffi = not has_integers and select(2, pcall(require, "ffi")) or nil
local int64 = ffi and ffi.typeof("int64_t")
local deepest = 300

---Stands for null in tables.
json.null = setmetatable({}, { __tostring = function() return "null" end })

-- object or list = the list of its keys, in order; false: a list
local orders = setmetatable({}, { __mode = "k" })

---The keys of an object that json.decode gave, in order; nil for a list.
---@return string[]?
function json.keys(object) return orders[object] or nil end

---Makes a table be written as a list, also where it is empty.
function json.list(values)
  orders[values] = false
  return values
end

---Makes a table be written as an object whose keys come in this order.
---@param keys string[]
function json.object(values, keys)
  orders[values] = keys
  return values
end

---Whether a table is written as a list.
---@return boolean
function json.is_list(value)
  local order = orders[value]
  if order ~= nil then return order == false end
  return #value > 0
end

-- ---- Writing ---------------------------------------------------------------------------------------------

local escapes = {
  ['"'] = '\\"', ["\\"] = "\\\\", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t",
}

local function escape(character)
  return escapes[character] or ("\\u%04x"):format(character:byte())
end

local function quote(text)
  return '"' .. text:gsub('[%c"\\\127]', escape) .. '"'
end

---Whether a value is an integer, exactly: of Lua 5.4's kind, an int64 cdata, or an integral double on LuaJIT.
---@return boolean
function json.is_integer(value)
  if has_integers then return math.type(value) == "integer" end
  if type(value) == "cdata" then return ffi.istype(int64, value) end
  return type(value) == "number" and value == math.floor(value) and math.abs(value) < 2 ^ 53
    and (value ~= 0 or 1 / value > 0)
end

local function number_text(value)
  if type(value) == "cdata" then return (tostring(value):gsub("LL$", "")) end
  if json.is_integer(value) then return ("%.0f"):format(value) end
  if value ~= value then return "NaN" end
  if value == math.huge then return "Infinity" elseif value == -math.huge then return "-Infinity" end
  local text = ("%.17g"):format(value)
  if tonumber(("%.15g"):format(value)) == value then text = ("%.15g"):format(value) end
  return text:find("[%.e]") and text or text .. ".0"
end

local function write(value, out, depth)
  local kind = type(value)
  if value == json.null or value == nil then
    out[#out + 1] = "null"
  elseif kind == "string" then
    out[#out + 1] = quote(value)
  elseif has_integers and math.type(value) == "integer" then
    out[#out + 1] = ("%d"):format(value)
  elseif kind == "number" or kind == "cdata" then
    out[#out + 1] = number_text(value)
  elseif kind == "boolean" then
    out[#out + 1] = tostring(value)
  elseif kind ~= "table" then
    error("json: cannot write a " .. kind, 0)
  elseif depth > deepest then
    error(("json: nested deeper than %d"):format(deepest), 0)
  elseif json.is_list(value) then
    out[#out + 1] = "["
    for i = 1, #value do
      if i > 1 then out[#out + 1] = ", " end
      write(value[i], out, depth + 1)
    end
    out[#out + 1] = "]"
  else
    local keys = orders[value]
    if not keys then
      keys = {}
      for key in pairs(value) do keys[#keys + 1] = key end
      table.sort(keys)
    end
    out[#out + 1] = "{"
    for i, key in ipairs(keys) do
      out[#out + 1] = (i > 1 and ", " or "") .. quote(tostring(key)) .. ": "
      write(value[key], out, depth + 1)
    end
    out[#out + 1] = "}"
  end
end

---@param value any tables with items at 1 .. n are lists, others objects (keys sorted); see json.list
---@return string
function json.encode(value)
  local out = {}
  write(value, out, 0)
  return table.concat(out)
end

-- ---- Reading ---------------------------------------------------------------------------------------------

local function refuse(text, at, what)
  error(("json: %s at byte %d of %d"):format(what, at, #text), 0)
end

local function skip(text, at)
  return text:find("[^ \t\r\n]", at) or #text + 1
end

local function utf8_bytes(code)
  if code < 0x80 then return string.char(code) end
  local function tail(shift) return 0x80 + math.floor(code / 2 ^ shift) % 64 end
  if code < 0x800 then return string.char(0xC0 + math.floor(code / 64), tail(0)) end
  if code < 0x10000 then return string.char(0xE0 + math.floor(code / 4096), tail(6), tail(0)) end
  return string.char(0xF0 + math.floor(code / 2 ^ 18), tail(12), tail(6), tail(0))
end

local plain = { ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

-- Parses what follows a backslash at `at`; returns the bytes and the position behind.
local function read_escape(text, at)
  local letter = text:sub(at + 1, at + 1)
  if plain[letter] then return plain[letter], at + 2 end
  local code = letter == "u" and tonumber(text:match("^%x%x%x%x", at + 2) or "", 16)
  if not code then refuse(text, at, "a bad escape") end
  if code >= 0xD800 and code < 0xDC00 then
    local low = tonumber(text:match("^\\u(%x%x%x%x)", at + 6) or "", 16)
    if not low or low < 0xDC00 or low > 0xDFFF then refuse(text, at, "half a surrogate pair") end
    return utf8_bytes(0x10000 + (code - 0xD800) * 1024 + low - 0xDC00), at + 12
  elseif code >= 0xDC00 and code < 0xE000 then
    refuse(text, at, "half a surrogate pair")
  end
  return utf8_bytes(code), at + 6
end

local function read_string(text, at)
  local parts, from = {}, at + 1
  while true do
    local stop = text:find('["\\%c]', from)
    local character = stop and text:sub(stop, stop)
    if not stop then refuse(text, at, "a string without an end") end
    parts[#parts + 1] = text:sub(from, stop - 1)
    if character == '"' then
      return table.concat(parts), stop + 1
    elseif character == "\\" then
      parts[#parts + 1], from = read_escape(text, stop)
    elseif character == "\127" then
      parts[#parts + 1], from = character, stop + 1
    else
      refuse(text, stop, "a control character in a string")
    end
  end
end

-- A run of digits as an exact integer, or as a float where int64 cannot hold it.
local function read_integer(digits)
  local value = tonumber(digits)
  if has_integers or math.abs(value) < 2 ^ 53 then return value end
  local magnitude = digits:gsub("^%-", "")
  local negative = #magnitude < #digits
  local largest = negative and "9223372036854775808" or "9223372036854775807"
  if #magnitude > 19 or (#magnitude == 19 and magnitude > largest) then return value end
  local whole = ffi.new("uint64_t", 0)
  for digit in magnitude:gmatch("%d") do whole = whole * 10 + tonumber(digit) end
  local signed = ffi.cast(int64, whole)
  return negative and -signed or signed
end

local function read_number(text, at)
  local whole = text:match("^%-?0", at) or text:match("^%-?[1-9]%d*", at)
  if not whole then refuse(text, at, "an unexpected character") end
  local rest = at + #whole
  local fraction = text:match("^%.%d+", rest) or ""
  local exponent = text:match("^[eE][+-]?%d+", rest + #fraction) or ""
  local stop = rest + #fraction + #exponent
  if text:find("^[%w%.]", stop) then refuse(text, stop, "a bad number") end
  if fraction == "" and exponent == "" then return read_integer(whole), stop end
  return tonumber(whole .. fraction .. exponent), stop
end

local words = {
  ["true"] = true, ["false"] = false, null = json.null, NaN = 0 / 0, Infinity = math.huge, ["-Infinity"] = -math.huge,
}

local read

local function read_list(text, at, depth)
  local list = json.list({})
  at = skip(text, at + 1)
  if text:sub(at, at) == "]" then return list, at + 1 end
  while true do
    list[#list + 1], at = read(text, at, depth + 1)
    at = skip(text, at)
    local mark = text:sub(at, at)
    if mark == "]" then return list, at + 1 end
    if mark ~= "," then refuse(text, at, "expected ',' or ']'") end
    at = skip(text, at + 1)
  end
end

local function read_object(text, at, depth)
  local keys = {}
  local object = json.object({}, keys)
  at = skip(text, at + 1)
  if text:sub(at, at) == "}" then return object, at + 1 end
  while true do
    if text:sub(at, at) ~= '"' then refuse(text, at, "expected a key") end
    local key
    key, at = read_string(text, at)
    at = skip(text, at)
    if text:sub(at, at) ~= ":" then refuse(text, at, "expected ':'") end
    if object[key] == nil then keys[#keys + 1] = key end
    object[key], at = read(text, skip(text, at + 1), depth + 1)
    at = skip(text, at)
    local mark = text:sub(at, at)
    if mark == "}" then return object, at + 1 end
    if mark ~= "," then refuse(text, at, "expected ',' or '}'") end
    at = skip(text, at + 1)
  end
end

read = function(text, at, depth)
  if depth > deepest then refuse(text, at, ("nested deeper than %d"):format(deepest)) end
  local first = text:sub(at, at)
  if first == '"' then return read_string(text, at) end
  if first == "[" then return read_list(text, at, depth) end
  if first == "{" then return read_object(text, at, depth) end
  local word = text:match("^%-?%a+", at)
  if word and words[word] ~= nil then return words[word], at + #word end
  return read_number(text, at)
end

---Reads one JSON text. An error (a string) says what is wrong and where.
---@param text string
---@return any
function json.decode(text)
  local value, at = read(text, skip(text, 1), 0)
  at = skip(text, at)
  if at <= #text then refuse(text, at, "something behind the value") end
  return value
end

return json
