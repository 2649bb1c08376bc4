-- Straightforward float64 arrays in plain Lua: what tensors are compared with. An array is a table with `shape`
-- (a list of extents) and its elements in C order at 1..n. Nothing here knows ctrain.
local reference = {}
local unpack = table.unpack or unpack -- luacheck: ignore

---@class reference.Array
---@field shape integer[]

---@param shape integer[]
---@return integer
function reference.count(shape)
  local n = 1
  for _, extent in ipairs(shape) do
    n = n * extent
  end
  return n
end

---@param shape integer[]
---@param source number[]|(fun(i: integer): number)|number elements, a function of the position (from 1), or one number
---@return reference.Array
function reference.array(shape, source)
  local out = { shape = { unpack(shape) } }
  for i = 1, reference.count(shape) do
    if type(source) == "function" then
      out[i] = source(i)
    elseif type(source) == "table" then
      out[i] = source[i]
    else
      out[i] = source
    end
  end
  return out
end

-- Zero-based indexes of the element at position i (from 1).
---@return integer[]
function reference.unravel(shape, i)
  local index, rest = {}, i - 1
  for d = #shape, 1, -1 do
    index[d] = rest % shape[d]
    rest = (rest - index[d]) / shape[d]
  end
  return index
end

-- The position (from 1) of zero-based indexes.
---@return integer
function reference.ravel(shape, index)
  local at = 0
  for d = 1, #shape do
    at = at * shape[d] + index[d]
  end
  return math.floor(at) + 1
end

---@return reference.Array
function reference.map(a, f)
  local out = { shape = { unpack(a.shape) } }
  for i = 1, #a do
    out[i] = f(a[i])
  end
  return out
end

---@return integer[]
function reference.broadcast_shape(a, b)
  local n, out = math.max(#a, #b), {}
  for d = 1, n do
    local x, y = a[d - (n - #a)] or 1, b[d - (n - #b)] or 1
    assert(x == y or x == 1 or y == 1, "the reference shapes do not broadcast")
    out[d] = x == 1 and y or x
  end
  return out
end

-- The array with `shape` that repeats a along new and size-1 dimensions.
---@return reference.Array
function reference.expand(a, shape)
  local lead = #shape - #a.shape
  return reference.array(shape, function(i)
    local index, own = reference.unravel(shape, i), {}
    for d = 1, #a.shape do
      own[d] = a.shape[d] == 1 and 0 or index[d + lead]
    end
    return a[reference.ravel(a.shape, own)]
  end)
end

---@return reference.Array
function reference.zip(a, b, f)
  local shape = reference.broadcast_shape(a.shape, b.shape)
  local x, y = reference.expand(a, shape), reference.expand(b, shape)
  return reference.array(shape, function(i)
    return f(x[i], y[i])
  end)
end

-- f receives the list of the elements that meet over `dims` (a set or list of dimensions from 1; nil: all).
---@return reference.Array
function reference.reduce(a, dims, keepdim, f)
  local over = {}
  if dims == nil then
    for d = 1, #a.shape do
      over[d] = true
    end
  else
    for _, d in ipairs(dims) do
      over[d < 0 and d + #a.shape + 1 or d] = true
    end
  end
  local kept, result = {}, {}
  for d, extent in ipairs(a.shape) do
    kept[d] = over[d] and 1 or extent
    if not over[d] then
      result[#result + 1] = extent
    elseif keepdim then
      result[#result + 1] = 1
    end
  end
  local groups = {}
  for i = 1, reference.count(kept) do
    groups[i] = {}
  end
  for i = 1, #a do
    local index = reference.unravel(a.shape, i)
    for d in pairs(over) do
      index[d] = 0
    end
    local group = groups[reference.ravel(kept, index)]
    group[#group + 1] = a[i]
  end
  return reference.array(result, function(i)
    return f(groups[i])
  end)
end

-- Every 1-d line along dimension `dim` becomes f(line), of the same length.
---@return reference.Array
function reference.along(a, dim, f)
  local out = reference.array(a.shape, 0)
  local extent, lines = a.shape[dim], {}
  if extent == nil then
    return reference.array({}, f({ a[1] }))
  end
  for i = 1, #a do
    local index = reference.unravel(a.shape, i)
    local at = index[dim]
    index[dim] = 0
    local key = reference.ravel(a.shape, index)
    lines[key] = lines[key] or { at = {} }
    lines[key][at + 1] = a[i]
    lines[key].at[at + 1] = i
  end
  for _, line in pairs(lines) do
    local result = f(line)
    for k = 1, extent do
      out[line.at[k]] = result[k]
    end
  end
  return out
end

-- order[d] is the dimension of a that becomes dimension d, from 1.
---@return reference.Array
function reference.permute(a, order)
  local shape = {}
  for d, from in ipairs(order) do
    shape[d] = a.shape[from]
  end
  return reference.array(shape, function(i)
    local index, own = reference.unravel(shape, i), {}
    for d, from in ipairs(order) do
      own[from] = index[d]
    end
    return a[reference.ravel(a.shape, own)]
  end)
end

-- An array whose element at zero-based indexes is a's element at f(indexes).
---@return reference.Array
function reference.gather(a, shape, f)
  return reference.array(shape, function(i)
    return a[reference.ravel(a.shape, f(reference.unravel(shape, i)))]
  end)
end

---@return reference.Array
function reference.reshape(a, shape)
  return reference.array(shape, a)
end

-- Neumaier's compensated sum: exact enough to be called the true one.
---@return number
function reference.sum(list)
  local sum, lost = 0, 0
  for _, x in ipairs(list) do
    local t = sum + x
    if math.abs(sum) >= math.abs(x) then
      lost = lost + ((sum - t) + x)
    else
      lost = lost + ((x - t) + sum)
    end
    sum = t
  end
  if lost ~= lost or sum ~= sum or sum == math.huge or sum == -math.huge then
    return sum
  end
  return sum + lost
end

-- As torch.matmul: 1-d to n-d, leading dimensions broadcast.
---@return reference.Array
function reference.matmul(a, b)
  local vector_a, vector_b = #a.shape == 1, #b.shape == 1
  if vector_a then
    a = reference.reshape(a, { 1, a.shape[1] })
  end
  if vector_b then
    b = reference.reshape(b, { b.shape[1], 1 })
  end
  local m, k, n = a.shape[#a.shape - 1], a.shape[#a.shape], b.shape[#b.shape]
  assert(k == b.shape[#b.shape - 1], "the reference's inner extents differ")
  local function lead(shape)
    local out = {}
    for d = 1, #shape - 2 do
      out[d] = shape[d]
    end
    return out
  end
  local batch = reference.broadcast_shape(lead(a.shape), lead(b.shape))
  local function widened(x)
    local shape = { unpack(batch) }
    shape[#shape + 1], shape[#shape + 2] = x.shape[#x.shape - 1], x.shape[#x.shape]
    return reference.expand(x, shape)
  end
  a, b = widened(a), widened(b)
  local shape = { unpack(batch) }
  shape[#shape + 1], shape[#shape + 2] = m, n
  local out = reference.array(shape, 0)
  for s = 0, reference.count(batch) - 1 do
    for i = 0, m - 1 do
      for j = 0, n - 1 do
        local terms = {}
        for l = 0, k - 1 do
          terms[l + 1] = a[s * m * k + i * k + l + 1] * b[s * k * n + l * n + j + 1]
        end
        out[s * m * n + i * n + j + 1] = reference.sum(terms)
      end
    end
  end
  local final = { unpack(batch) }
  if not vector_a then
    final[#final + 1] = m
  end
  if not vector_b then
    final[#final + 1] = n
  end
  return reference.reshape(out, final)
end

-- Functions that Lua's math lacks, to float64's accuracy.

---@return number
function reference.expm1(x)
  if math.abs(x) > 1 then
    return math.exp(x) - 1
  end
  if x < 0 then
    local e = reference.expm1(-x)
    return -e / (1 + e)
  end
  local sum = 1
  for n = 30, 2, -1 do
    sum = 1 + sum * x / n
  end
  return x * sum
end

---@return number
function reference.log1p(x)
  local u = 1 + x
  if u == 1 then
    return x
  end
  if u == math.huge or u ~= u or u <= 0 then
    return math.log(u)
  end
  return math.log(u) - ((u - 1) - x) / u
end

---@return number
function reference.tanh(x)
  if x < 0 then
    return -reference.tanh(-x)
  elseif x > 20 then
    return 1
  end
  local e = reference.expm1(2 * x)
  return e / (e + 2)
end

---@return number
function reference.sigmoid(x)
  if x >= 0 then
    return 1 / (1 + math.exp(-x))
  end
  local e = math.exp(x)
  return e == 0 and 0 or e / (1 + e)
end

---@return number
function reference.erf(x)
  if x ~= x then
    return x
  end
  local a = math.abs(x)
  if a > 6 then
    return x > 0 and 1 or -1
  end
  if a < 0.8 then
    -- Abramowitz and Stegun 7.1.6: every term is positive, so nothing cancels
    local term, sum = a, a
    for n = 1, 120 do
      term = term * 2 * a * a / (2 * n + 1)
      sum = sum + term
    end
    local value = 2 / math.sqrt(math.pi) * math.exp(-a * a) * sum
    return x < 0 and -value or (x == 0 and x or value)
  end
  -- the continued fraction of erfc, 7.1.14, from its tail
  local f = a
  for n = 1500, 1, -1 do
    f = a + (n / 2) / f
  end
  local value = 1 - math.exp(-a * a) / (f * math.sqrt(math.pi))
  return x < 0 and -value or value
end

-- To the nearest integer, ties to even.
---@return number
function reference.round(x)
  if x ~= x or math.abs(x) >= 2 ^ 52 then
    return x
  end
  local low = math.floor(x)
  local rest = x - low
  if rest > 0.5 or (rest == 0.5 and low % 2 == 1) then
    low = low + 1
  end
  return low
end

---@return number
function reference.trunc(x)
  if x ~= x or x == math.huge or x == -math.huge then
    return x
  end
  return x >= 0 and math.floor(x) or math.ceil(x)
end

return reference
