-- Between reference arrays and tensors: the shapes and memory layouts that specs walk through, and comparisons that
-- say which element differs.
local ct = require "ctrain"
local floats = require "spec.support.floats"
local reference = require "spec.support.reference"

local tensors = {}
local unpack = table.unpack or unpack -- luacheck: ignore unpack

-- 0-d, empty, size-1, odd, longer than a vector, longer than a block of a reduction.
tensors.shapes = {
  {}, { 0 }, { 1 }, { 7 }, { 33 }, { 3, 5 }, { 1, 4 }, { 5, 1 }, { 2, 0, 3 }, { 2, 3, 4 }, { 2, 1, 3, 1 }, { 67, 3 },
}
tensors.long_shapes = { { 4099 }, { 3, 1371 }, { 1371, 3 } }
tensors.layouts = { "contiguous", "transposed", "strided", "flipped", "narrowed" }
tensors.float_dtypes = { "float64", "float32", "float16", "bfloat16" }
tensors.integer_dtypes = { "int8", "int16", "int32", "int64", "uint8" }
tensors.dtypes = {
  "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
}

---@param shape integer[]
---@return string
function tensors.shape_text(shape)
  return #shape == 0 and "scalar" or table.concat(shape, "x")
end

-- An exact Lua number of what totable gives (LuaJIT hands out int64 beyond 2^53 as cdata, booleans as such).
local function plain(x)
  if type(x) == "boolean" then
    return x and 1 or 0
  end
  return type(x) == "number" and x or tonumber(x)
end

-- A C-order tensor of the elements.
function tensors.contiguous(a, dtype)
  if #a == 0 then
    return ct.zeros(a.shape, dtype)
  end
  local list = {}
  for i = 1, #a do
    list[i] = a[i]
    if dtype == "bool" then
      list[i] = a[i] ~= 0
    end
  end
  if #a.shape == 0 then
    return ct.tensor(list[1], { dtype = dtype })
  end
  return ct.tensor(list, { dtype = dtype }):reshape(a.shape)
end

local builders = {}

builders.contiguous = tensors.contiguous

-- The elements lie in memory with the dimensions in reverse.
function builders.transposed(a, dtype)
  local order = {}
  for d = 1, #a.shape do
    order[d] = #a.shape + 1 - d
  end
  if #order == 0 then
    return tensors.contiguous(a, dtype)
  end
  return tensors.contiguous(reference.permute(a, order), dtype):permute(order)
end

-- Every second element along the last dimension of a wider tensor.
function builders.strided(a, dtype)
  local n = #a.shape
  if n == 0 or #a == 0 then
    return tensors.contiguous(a, dtype)
  end
  local wide = { unpack(a.shape) }
  wide[n] = 2 * wide[n]
  local base = reference.array(wide, function(i)
    local index = reference.unravel(wide, i)
    if index[n] % 2 == 1 then
      return 1
    end
    index[n] = index[n] / 2
    return a[reference.ravel(a.shape, index)]
  end)
  local split = { unpack(a.shape) }
  split[n + 1] = 2
  return tensors.contiguous(base, dtype):reshape(split):select(-1, 1)
end

function builders.flipped(a, dtype)
  if #a.shape == 0 then
    return tensors.contiguous(a, dtype)
  end
  local base = reference.gather(a, a.shape, function(index)
    index[1] = a.shape[1] - 1 - index[1]
    return index
  end)
  return tensors.contiguous(base, dtype):flip(1)
end

-- The middle of a taller and wider tensor: an offset, and gaps between rows.
function builders.narrowed(a, dtype)
  if #a.shape == 0 then
    return tensors.contiguous(a, dtype)
  end
  local wide = {}
  for d, extent in ipairs(a.shape) do
    wide[d] = extent + 3
  end
  local base = reference.array(wide, function(i)
    local index = reference.unravel(wide, i)
    for d, extent in ipairs(a.shape) do
      index[d] = index[d] - 1
      if index[d] < 0 or index[d] >= extent then
        return 1
      end
    end
    return a[reference.ravel(a.shape, index)]
  end)
  local t = tensors.contiguous(base, dtype)
  for d, extent in ipairs(a.shape) do
    t = t:narrow(d, 2, extent)
  end
  return t
end

-- A tensor of the array's elements, in the named layout.
---@param a reference.Array
---@param dtype? string default "float64"
---@param layout? string one of tensors.layouts
function tensors.make(a, dtype, layout)
  return builders[layout or "contiguous"](a, dtype or "float64")
end

-- The array repeated along its size-1 dimensions without a copy, and what it then holds.
---@return any tensor
---@return reference.Array
function tensors.expanded(a, shape, dtype)
  return tensors.contiguous(a, dtype or "float64"):expand(shape), reference.expand(a, shape)
end

-- The tensor's elements as a reference array.
---@return reference.Array
function tensors.read(t)
  local shape, out = t.shape, {}
  if reference.count(shape) > 0 then
    local list = t:reshape({ reference.count(shape) }):totable()
    for i = 1, #list do
      out[i] = plain(list[i])
    end
  end
  out.shape = shape
  return out
end

local function describe_place(shape, i)
  local index = reference.unravel(shape, i)
  for d = 1, #index do
    index[d] = math.floor(index[d] + 1)
  end
  return "element [" .. table.concat(index, ", ") .. "] of " .. tensors.shape_text(shape)
end

---@param t any a tensor
---@param shape integer[]
---@param level? integer
function tensors.has_shape(t, shape, level)
  local seen = t.shape
  local equal = #seen == #shape
  for d = 1, #shape do
    equal = equal and seen[d] == shape[d]
  end
  if not equal then
    error(("shape %s, expected %s"):format(tensors.shape_text(seen), tensors.shape_text(shape)), (level or 1) + 1)
  end
end

-- Fails unless every element is the array's own: same bits, but that any NaN equals any NaN.
---@param t any a tensor
---@param expected reference.Array
---@param what? string
function tensors.equal(t, expected, what)
  tensors.has_shape(t, expected.shape, 2)
  local seen = tensors.read(t)
  for i = 1, #expected do
    if not floats.same(seen[i] + 0.0, expected[i] + 0.0) then
      error(("%s%s is %.17g, expected %.17g"):format(what and what .. ": " or "", describe_place(expected.shape, i),
        seen[i], expected[i]), 2)
    end
  end
  return true
end

-- Fails unless every element is within `ulps` units in the last place of the tensor's dtype.
function tensors.within_ulps(t, expected, ulps, what)
  tensors.has_shape(t, expected.shape, 2)
  local seen, dtype = tensors.read(t), t.dtype
  for i = 1, #expected do
    local off = floats.ulps(seen[i], expected[i], dtype)
    if not (off <= ulps) then -- luacheck: ignore 581
      error(("%s%s is %.17g, expected %.17g: %g ulp apart, %g allowed"):format(what and what .. ": " or "",
        describe_place(expected.shape, i), seen[i], expected[i], off, ulps), 2)
    end
  end
  return true
end

-- Fails unless |seen - expected| <= relative * |expected| + absolute everywhere (NaN meets NaN, inf meets inf).
function tensors.close(t, expected, relative, absolute, what)
  tensors.has_shape(t, expected.shape, 2)
  local seen = tensors.read(t)
  for i = 1, #expected do
    local a, b = seen[i], expected[i]
    local fine = a == b or (a ~= a and b ~= b) or math.abs(a - b) <= relative * math.abs(b) + (absolute or 0)
    if not fine then
      error(("%s%s is %.17g, expected %.17g"):format(what and what .. ": " or "", describe_place(expected.shape, i), a,
        b), 2)
    end
  end
  return true
end

-- Fails unless two tensors have the same dtype, shape and bits.
function tensors.identical(a, b, what)
  if a.dtype ~= b.dtype then
    error(("%sdtype %s against %s"):format(what and what .. ": " or "", a.dtype, b.dtype), 2)
  end
  local array = tensors.read(b)
  tensors.has_shape(a, array.shape, 2)
  local seen = tensors.read(a)
  for i = 1, #array do
    if not floats.same(seen[i] + 0.0, array[i] + 0.0) then
      error(("%s%s is %.17g against %.17g"):format(what and what .. ": " or "", describe_place(array.shape, i), seen[i],
        array[i]), 2)
    end
  end
  return true
end

-- Calls f(shape, layout, label) for every shape in every layout that differs for it.
---@param f fun(shape: integer[], layout: string, label: string)
---@param shapes? integer[][]
function tensors.each_layout(f, shapes)
  for _, shape in ipairs(shapes or tensors.shapes) do
    for _, layout in ipairs(tensors.layouts) do
      local differs = layout == "contiguous" or (#shape > 0 and reference.count(shape) > 0)
      if differs and not (layout == "transposed" and #shape < 2) then
        f(shape, layout, tensors.shape_text(shape) .. " " .. layout)
      end
    end
  end
end

-- An array of seeded numbers in [low, high], rounded to what the dtype holds.
---@param generator random.Generator
---@return reference.Array
function tensors.uniform(generator, shape, low, high, dtype)
  return reference.array(shape, function()
    local x = generator:uniform(low, high)
    if dtype and floats.formats[dtype] then
      return floats.round(x, dtype)
    end
    return x
  end)
end

---@return reference.Array
function tensors.integers(generator, shape, low, high)
  return reference.array(shape, function()
    return generator:integer(low, high)
  end)
end

return tensors
