-- The float formats in arithmetic of Lua doubles: rounding to nearest, ties to even, and distances in units in the
-- last place. Nothing here knows ctrain.
local floats = {}

---@class floats.Format
---@field bits integer significant bits, the hidden one counted
---@field min integer exponent of the smallest normal number
---@field max integer exponent of the largest number

---@type table<string, floats.Format>
floats.formats = {
  float16 = { bits = 11, min = -14, max = 15 },
  bfloat16 = { bits = 8, min = -126, max = 127 },
  float32 = { bits = 24, min = -126, max = 127 },
  float64 = { bits = 53, min = -1022, max = 1023 },
}

-- floor(log2(|x|)) of a finite x other than 0.
local function exponent(x)
  x = math.abs(x)
  local e = 0
  while x >= 2 ^ 32 do
    x, e = x / 2 ^ 32, e + 32
  end
  while x < 2 ^ -32 do
    x, e = x * 2 ^ 32, e - 32
  end
  while x >= 2 do
    x, e = x / 2, e + 1
  end
  while x < 1 do
    x, e = x * 2, e - 1
  end
  return e
end

-- The distance between numbers of the format near x.
---@return number
function floats.spacing(x, dtype)
  local format = floats.formats[dtype]
  if x ~= x or x == math.huge or x == -math.huge then
    return 0
  end
  local e = x == 0 and format.min or math.max(exponent(x), format.min)
  return 2 ^ (e - format.bits + 1)
end

local function round_half_even(x)
  local low = math.floor(x)
  local rest = x - low
  if rest > 0.5 or (rest == 0.5 and low % 2 == 1) then
    low = low + 1
  end
  return low
end

-- x as the nearest number of the format.
---@param x number
---@param dtype string
---@return number
function floats.round(x, dtype)
  local format = floats.formats[dtype]
  if dtype == "float64" or x ~= x or x == math.huge or x == -math.huge or x == 0 then
    return x
  end
  local step = floats.spacing(x, dtype)
  local magnitude = round_half_even(math.abs(x) / step) * step
  local largest = (2 - 2 ^ (1 - format.bits)) * 2 ^ format.max
  if magnitude > largest then
    magnitude = math.huge
  end
  return x < 0 and -magnitude or magnitude
end

-- How many of the format's numbers lie between the value and the truth (fractions included).
---@return number
function floats.ulps(value, truth, dtype)
  if value == truth or (value ~= value and truth ~= truth) then
    return 0
  end
  local largest = (2 - 2 ^ (1 - floats.formats[dtype].bits)) * 2 ^ floats.formats[dtype].max
  if value ~= value or truth ~= truth then
    return math.huge
  end
  if math.abs(value) == math.huge or math.abs(truth) == math.huge then
    return floats.round(truth, dtype) == value and 0 or math.huge
  end
  return math.abs(value - truth) / floats.spacing(math.min(math.abs(truth), largest), dtype)
end

-- Whether two numbers are the same, the sign of zero and NaN included.
---@return boolean
function floats.same(a, b)
  if a ~= a or b ~= b then
    return a ~= a and b ~= b
  end
  return a == b and (a ~= 0 or 1 / a == 1 / b)
end

return floats
