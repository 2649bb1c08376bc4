-- print.lua: what print(t) shows: aligned columns, a common scale factor where it helps, long tensors with their
-- middle left out, and a footer of dtype and shape. Counting is Lua's: the first slice is (1,.,.).

local core = require "ctrain.core"
local options = require "ctrain.options"

local EDGE = 3        -- elements kept at each end of a dimension of a long tensor
local LONG = 1000     -- tensors of more elements are shortened
local LINE_WIDTH = 80
local GAP = "  "

local digits = { float16 = 5, bfloat16 = 4, float32 = 7, float64 = 15 }

local function integer_text(value)
  if type(value) == "number" then return ("%.0f"):format(value) end
  return (tostring(value):gsub("U?LL$", "")) -- int64 cdata of LuaJIT
end

local function odd_text(value)
  if value ~= value then return "nan" end
  if value == math.huge then return "inf" end
  if value == -math.huge then return "-inf" end
end

-- Calls fn with each number of nested lists.
local function each(value, fn)
  if type(value) ~= "table" then return fn(value) end
  for _, item in ipairs(value) do each(item, fn) end
end

local function digits_before_point(value)
  return math.floor(math.log(value) / math.log(10) + 1e-12) + 1
end

-- A formatter for the floats in `data`, and the factor that is taken out of them, or nil.
local function float_format(data)
  local least, most, whole = math.huge, 0, true
  each(data, function(v)
    local a = math.abs(v)
    if v == v and a ~= math.huge then
      whole = whole and v == math.floor(v)
      if a > 0 then least, most = math.min(least, a), math.max(most, a) end
    end
  end)
  if most == 0 then least, most = 1, 1 end
  local low, high = digits_before_point(least), digits_before_point(most)
  local pattern, scale = "%.4f", nil
  if whole and high <= 9 then
    pattern = "%.0f"
  elseif high - low > 4 then
    pattern = "%.4e"
  elseif high > 5 or high < 0 then
    scale = 10 ^ (high - 1)
  end
  return function(v)
    return odd_text(v) or pattern:format(scale and v / scale or v)
  end, scale
end

-- The texts of nested lists, all as wide as the widest.
local function texts_of(data, format)
  local width = 0
  local function render(value)
    if type(value) ~= "table" then
      local text = format(value)
      width = math.max(width, #text)
      return text
    end
    local list = {}
    for i, item in ipairs(value) do list[i] = render(item) end
    return list
  end
  return render(data), width
end

local function row_text(row, first, last, width, gap_after)
  local cells = {}
  for i = first, last do
    cells[#cells + 1] = (" "):rep(width - #row[i]) .. row[i]
    if i == gap_after then cells[#cells + 1] = "..." end
  end
  return " " .. table.concat(cells, GAP)
end

local function vector(lines, row, width, short)
  local columns = math.max(1, math.floor((LINE_WIDTH - 1 + #GAP) / (width + #GAP)))
  if short then columns = #row end
  for first = 1, #row, columns do
    lines[#lines + 1] = row_text(row, first, math.min(first + columns - 1, #row), width, short and EDGE)
  end
end

local function matrix(lines, rows, width, short_rows, short_columns)
  local count = #rows[1]
  local columns = math.max(1, math.floor((LINE_WIDTH - 1 + #GAP) / (width + #GAP)))
  if short_columns then columns = count end
  for first = 1, count, columns do
    local last = math.min(first + columns - 1, count)
    if count > columns then
      lines[#lines + 1] = first == last and ("column %d:"):format(first) or ("columns %d to %d:"):format(first, last)
    end
    for i, row in ipairs(rows) do
      lines[#lines + 1] = row_text(row, first, last, width, short_columns and EDGE)
      if short_rows and i == EDGE then lines[#lines + 1] = " ..." end
    end
  end
end

-- The matrices of a tensor of three or more dimensions, each under its index.
local function slices(lines, data, width, short, shape, depth, index)
  if depth > #shape - 2 then
    lines[#lines + 1] = "(" .. table.concat(index, ",") .. ",.,.) ="
    matrix(lines, data, width, short[#shape - 1], short[#shape])
    return
  end
  for i, item in ipairs(data) do
    index[depth] = short[depth] and i > EDGE and shape[depth] - 2 * EDGE + i or i
    slices(lines, item, width, short, shape, depth + 1, index)
    if short[depth] and i == EDGE then lines[#lines + 1] = "..." end
  end
  index[depth] = nil
end

local function shortened(t, shape)
  local short = {}
  if t:numel() > LONG then
    for d, extent in ipairs(shape) do
      if extent > 2 * EDGE then
        short[d] = true
        t = core.cat({ t:narrow(d, 1, EDGE), t:narrow(d, extent - EDGE + 1, EDGE) }, d)
      end
    end
  end
  return t, short
end

local function format(t)
  local shape, dtype = t.shape, t.dtype
  local footer = ("[%s %s]"):format(dtype, options.shape_text(shape))
  if core.tracing() then return footer:sub(1, -2) .. ", traced]" end
  if t:numel() == 0 then return footer end
  if #shape == 0 then
    local value = t:item()
    local text = digits[dtype] and (odd_text(value) or ("%." .. digits[dtype] .. "g"):format(value))
      or type(value) == "boolean" and tostring(value) or integer_text(value)
    return " " .. text .. "\n" .. footer
  end
  local part, short = core.no_grad(shortened, t:detach(), shape)
  local data, lines = part:totable(), {}
  local render, scale
  if dtype == "bool" then
    render = tostring
  elseif digits[dtype] then
    render, scale = float_format(data)
  else
    render = integer_text
  end
  local texts, width = texts_of(data, render)
  if scale then lines[1] = (" %.0e *"):format(scale) end
  if #shape == 1 then
    vector(lines, texts, width, short[1])
  elseif #shape == 2 then
    matrix(lines, texts, width, short[1], short[2])
  else
    slices(lines, texts, width, short, shape, 1, {})
  end
  lines[#lines + 1] = footer
  return table.concat(lines, "\n")
end

core.set_format(format)

return format
