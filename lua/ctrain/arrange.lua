-- arrange.lua: tensor methods that put elements elsewhere: padding, stacking, splitting, repeating, rolling and
-- triangles. Lists of tensors come back as Lua lists.

local core = require "ctrain.core"
local options = require "ctrain.options"

local Tensor = core.Tensor
local fail, integer, dim_of, shape_text = options.fail, options.integer, options.dim, options.shape_text

-- Numbers given one by one or as a list.
local function list_of(first, ...)
  if type(first) == "table" then return first end
  return { first, ... }
end

---Constant padding, as PyTorch orders it: {left, right, top, bottom, ...}, from the last dimension backwards.
---A negative amount removes elements. The gradient of what is padded goes through.
---@param amounts integer[]
---@param value number? default 0
function Tensor.pad(t, amounts, value)
  if type(amounts) ~= "table" or #amounts % 2 ~= 0 or #amounts > 2 * t.ndim then
    fail("pad: expected a list of two amounts a dimension (at most %d) for a %s tensor", 2 * t.ndim, shape_text(t))
  end
  local shape, ndim, wide = t.shape, t.ndim, t.shape
  local inner, spot, grows = t, {}, false
  for i = 1, #amounts / 2 do
    local d = ndim - i + 1
    local before = integer("pad", "amount", amounts[2 * i - 1])
    local after = integer("pad", "amount", amounts[2 * i])
    wide[d] = shape[d] + before + after
    if wide[d] < 0 then
      fail("pad: %d and %d leave nothing of dim %d, which has %d elements", before, after, d, shape[d])
    end
    local first, count = math.max(-before, 0), shape[d] - math.max(-before, 0) - math.max(-after, 0)
    if first > 0 or count < shape[d] then inner = inner:narrow(d, first + 1, math.max(count, 0)) end
    spot[d] = { math.max(before, 0) + 1, math.max(count, 0) }
    grows = grows or before > 0 or after > 0
  end
  if not grows then return inner:clone() end
  local result = core.full(wide, value or 0, { dtype = t.dtype })
  local window = result
  for d, place in pairs(spot) do window = window:narrow(d, place[1], place[2]) end
  window:copy_(inner)
  return result
end

---Joins tensors of one shape along a new dimension.
---@param list tensor[]
---@param dim integer? default 1
function core.stack(list, dim)
  if type(list) ~= "table" or #list == 0 then fail("stack: expected a list of at least one tensor") end
  local first = options.tensor("stack", "list[1]", list[1])
  local text, rows = shape_text(first), {}
  dim = dim_of("stack", dim or 1, first.ndim + 1)
  for i, t in ipairs(list) do
    options.tensor("stack", "list[" .. i .. "]", t)
    if shape_text(t) ~= text then
      fail("stack: list[%d] is %s where list[1] is %s; the shapes must be equal", i, shape_text(t), text)
    end
    rows[i] = t:unsqueeze(dim)
  end
  return core.cat(rows, dim)
end

---Pieces of the given extent along a dimension (the last may be smaller), or of the extents in a list.
---@param size integer|integer[]
---@param dim integer? default 1
---@return tensor[]
function Tensor.split(t, size, dim)
  local shape = t.shape
  dim = dim_of("split", dim or 1, t.ndim, shape)
  if t.ndim == 0 then fail("split: a scalar has no dimension to split") end
  local extent, sizes = shape[dim], size
  if type(size) ~= "table" then
    size = integer("split", "size", size, extent == 0 and 0 or 1)
    sizes = {}
    for start = 0, math.max(extent - 1, 0), math.max(size, 1) do
      sizes[#sizes + 1] = math.min(size, extent - start)
    end
  end
  local pieces, start = {}, 1
  for i, count in ipairs(sizes) do
    count = integer("split", "sizes[" .. i .. "]", count, 0)
    if start + count - 1 > extent then break end
    pieces[i] = t:narrow(dim, start, count)
    start = start + count
  end
  if #pieces < #sizes or start ~= extent + 1 then
    fail("split: the sizes %s do not add up to %d, the extent of dim %d of a %s tensor",
      table.concat(sizes, ", "), extent, dim, shape_text(shape))
  end
  return pieces
end

---At most `count` pieces of equal extent (the last may be smaller).
---@return tensor[]
function Tensor.chunk(t, count, dim)
  local shape = t.shape
  dim = dim_of("chunk", dim or 1, t.ndim, shape)
  count = integer("chunk", "count", count, 1)
  local extent = shape[dim] or 1
  return t:split(math.max(math.ceil(extent / count), extent == 0 and 0 or 1), dim)
end

---The slices along a dimension, without it.
---@return tensor[]
function Tensor.unbind(t, dim)
  dim = dim_of("unbind", dim or 1, t.ndim, t.shape)
  local slices = {}
  for i = 1, t.shape[dim] or 0 do slices[i] = t:select(dim, i) end
  return slices
end

---One dimension seen as several.
---@param sizes integer[] one of them may be -1
function Tensor.unflatten(t, dim, sizes)
  local shape, result = t.shape, {}
  dim = dim_of("unflatten", dim, t.ndim, shape)
  for d, extent in ipairs(shape) do
    if d ~= dim then
      result[#result + 1] = extent
    else
      for _, size in ipairs(sizes) do result[#result + 1] = size end
    end
  end
  return t:reshape(result)
end

local function repeated(name, t, counts)
  local ndim = t.ndim
  if #counts < ndim then
    fail("%s: got %d counts for a %s tensor; it needs one a dimension", name, #counts, shape_text(t))
  end
  for _ = 1, #counts - ndim do t = t:unsqueeze(1) end
  for d = #counts, 1, -1 do
    local count = integer(name, "counts[" .. d .. "]", counts[d], 0)
    if count ~= 1 then
      local wide = t:unsqueeze(d)
      local shape, flat = wide.shape, t.shape
      shape[d], flat[d] = count, flat[d] * count
      t = wide:expand(shape):reshape(flat)
    end
  end
  return t
end

---The tensor laid side by side with itself: one count a dimension, further counts in front add dimensions.
Tensor["repeat"] = function(t, ...)
  return repeated("repeat", t, list_of(...)):clone()
end

---As repeat, but missing counts are 1.
function Tensor.tile(t, ...)
  local counts, given = {}, list_of(...)
  for i = 1, math.max(t.ndim - #given, 0) do counts[i] = 1 end
  for _, count in ipairs(given) do counts[#counts + 1] = count end
  return repeated("tile", t, counts):clone()
end

---Elements moved along dimensions; those that leave at the end come back at the front.
---@param shifts integer|integer[]
---@param dims integer|integer[]? default: over the flattened tensor
function Tensor.roll(t, shifts, dims)
  if dims == nil then
    if type(shifts) == "table" and #shifts ~= 1 then fail("roll: several shifts need as many dims") end
    return t:flatten():roll(shifts, 1):reshape(t.shape)
  end
  shifts, dims = list_of(shifts), list_of(dims)
  if #shifts ~= #dims then fail("roll: got %d shifts and %d dims", #shifts, #dims) end
  for i, dim in ipairs(dims) do
    local shift = integer("roll", "shift", shifts[i])
    dim = dim_of("roll", dim, t.ndim, t.shape)
    local extent = t.shape[dim] or 0
    shift = extent > 0 and shift % extent or 0
    if shift ~= 0 then
      t = core.cat({ t:narrow(dim, extent - shift + 1, shift), t:narrow(dim, 1, extent - shift) }, dim)
    end
  end
  return t:clone()
end

-- The elements where keep(column, row + shift) holds, zeros elsewhere.
local function triangle(name, t, shift, keep)
  local shape = t.shape
  if #shape < 2 then fail("%s: needs at least 2 dimensions, got %s", name, shape_text(shape)) end
  local rows = core.arange(shape[#shape - 1]):unsqueeze(-1) + integer(name, "diagonal", shift or 0)
  local columns = core.arange(shape[#shape])
  return core.where(columns[keep](columns, rows), t, core.zeros({}, { dtype = t.dtype }))
end

---The lower triangle of matrices: columns up to row + diagonal.
function Tensor.tril(t, diagonal) return triangle("tril", t, diagonal, "le") end

---The upper triangle of matrices: columns from row + diagonal.
function Tensor.triu(t, diagonal) return triangle("triu", t, diagonal, "ge") end

for _, name in ipairs { "tril", "triu" } do
  local compute = Tensor[name]
  Tensor[name .. "_"] = function(t, ...) return t:copy_(compute(t, ...)) end
end

return Tensor
