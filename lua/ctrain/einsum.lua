-- einsum.lua: products of tensors named by their dimensions' letters. Two operands become one matmul:
-- letters in both and in the result are batch dimensions, letters in both but not in the result are summed.

local core = require "ctrain.core"
local options = require "ctrain.options"

local Tensor = core.Tensor
local fail, shape_text = options.fail, options.shape_text

-- The letters of one operand; "..." becomes digits, counted from the end so that operands align.
local function letters_of(text, t, number)
  local letters, dots = {}, text:find("...", 1, true)
  local bare = text:gsub("%.%.%.", "")
  if not bare:match("^%a*$") then fail("einsum: '%s' is not made of letters and '...'", text) end
  local extra = t.ndim - #bare
  if extra < 0 or (extra > 0 and not dots) then
    fail("einsum: operand %d is %s, but '%s' names %d dimensions", number, shape_text(t), text, #bare)
  end
  for i = 1, #text do
    if i == dots then
      for k = extra, 1, -1 do letters[#letters + 1] = tostring(k) end
    elseif text:sub(i, i) ~= "." then
      letters[#letters + 1] = text:sub(i, i)
    end
  end
  return letters
end

local function position(letters, letter)
  for d, l in ipairs(letters) do
    if l == letter then return d end
  end
end

-- Letters that occur twice in an operand become its diagonal; those nobody else names are summed away.
local function simplify(t, letters, wanted)
  local i = 1
  while i <= #letters do
    local letter, twin = letters[i], nil
    for j = i + 1, #letters do
      if letters[j] == letter then twin = j end
    end
    if twin then
      if t.shape[i] ~= t.shape[twin] then
        fail("einsum: '%s' is %d and %d in one operand", letter, t.shape[i], t.shape[twin])
      end
      t = t:diagonal(0, i, twin)
      table.remove(letters, twin)
      table.remove(letters, i)
      letters[#letters + 1] = letter
    else
      i = i + 1
    end
  end
  for d = #letters, 1, -1 do
    if not wanted[letters[d]] then
      t = t:sum(d)
      table.remove(letters, d)
    end
  end
  return t, letters
end

-- Dimensions in the order of `wanted`, all of which t has.
local function arranged(t, letters, wanted)
  local order, same = {}, true
  for i, letter in ipairs(wanted) do
    order[i] = position(letters, letter)
    same = same and order[i] == i
  end
  return same and t or t:permute(order)
end

local function set_of(...)
  local set = {}
  for _, list in ipairs { ... } do
    for _, letter in ipairs(list) do set[letter] = true end
  end
  return set
end

local function joined(...)
  local result = {}
  for _, list in ipairs { ... } do
    for _, item in ipairs(list) do result[#result + 1] = item end
  end
  return result
end

local function product(extents)
  local n = 1
  for _, extent in ipairs(extents) do n = n * extent end
  return n
end

-- Without an arrow the result has every letter that occurs once, in alphabetical order, after "...".
local function implied(all)
  local count, once, dots = {}, {}, {}
  for _, letter in ipairs(all) do count[letter] = (count[letter] or 0) + 1 end
  for letter, n in pairs(count) do
    if letter:match("%d") then dots[#dots + 1] = letter elseif n == 1 then once[#once + 1] = letter end
  end
  table.sort(dots, function(a, b) return tonumber(a) > tonumber(b) end)
  table.sort(once)
  return joined(dots, once)
end

local function contract(a, letters_a, b, letters_b, out)
  local in_a, in_b, in_out = set_of(letters_a), set_of(letters_b), set_of(out)
  local batch, inner, free_a, free_b, extent = {}, {}, {}, {}, {}
  local shape_a, shape_b = a.shape, b.shape
  for d, letter in ipairs(letters_a) do
    extent[letter] = shape_a[d]
    local list = not in_b[letter] and free_a or in_out[letter] and batch or inner
    list[#list + 1] = letter
  end
  for d, letter in ipairs(letters_b) do
    if not in_a[letter] then
      free_b[#free_b + 1] = letter
      extent[letter] = shape_b[d]
    elseif extent[letter] ~= shape_b[d] then
      fail("einsum: '%s' is %d in operand 1 (%s) and %d in operand 2 (%s)", letter, extent[letter],
        shape_text(shape_a), shape_b[d], shape_text(shape_b))
    end
  end
  local function extents(list)
    local result = {}
    for i, letter in ipairs(list) do result[i] = extent[letter] end
    return result
  end
  local n_batch, n_inner = extents(batch), product(extents(inner))
  local left = arranged(a, letters_a, joined(batch, free_a, inner))
    :reshape(joined(n_batch, { product(extents(free_a)), n_inner }))
  local right = arranged(b, letters_b, joined(batch, inner, free_b))
    :reshape(joined(n_batch, { n_inner, product(extents(free_b)) }))
  local result = left:matmul(right):reshape(joined(n_batch, extents(free_a), extents(free_b)))
  return arranged(result, joined(batch, free_a, free_b), out)
end

---Einstein summation over one or two tensors: ct.einsum("bij,bjk->bik", a, b).
---@param equation string
---@param a tensor
---@param b tensor?
function core.einsum(equation, a, b, ...)
  if type(equation) ~= "string" then fail("einsum: the first argument is a string such as 'ij,jk->ik'") end
  if select("#", ...) > 0 then fail("einsum: takes one or two tensors, got %d", 2 + select("#", ...)) end
  options.tensor("einsum", "operand 1", a)
  local text = equation:gsub("%s", "")
  local left, result = text:match("^(.-)%->(.*)$")
  local first, second = (left or text):match("^([^,]*),?([^,]*)$")
  local two = (left or text):find(",", 1, true) ~= nil
  if not first then fail("einsum: '%s' names more than two operands", equation) end
  if two ~= (b ~= nil) then
    fail("einsum: '%s' names %d operands, got %d", equation, two and 2 or 1, b ~= nil and 2 or 1)
  end
  local letters_a = letters_of(first, a, 1)
  local letters_b = two and letters_of(second, options.tensor("einsum", "operand 2", b), 2) or {}
  local all, out = joined(letters_a, letters_b), {}
  if result then
    local known, seen, dots = set_of(all), {}, 0
    for _, letter in ipairs(all) do dots = math.max(dots, tonumber(letter) or 0) end
    for i = 1, #result do
      local letter = result:sub(i, i)
      if result:sub(i, i + 2) == "..." then
        for k = dots, 1, -1 do out[#out + 1] = tostring(k) end
      elseif letter ~= "." then
        if not known[letter] then fail("einsum: '%s' is in the result of '%s' only", letter, equation) end
        if seen[letter] then fail("einsum: '%s' is twice in the result of '%s'", letter, equation) end
        seen[letter] = true
        out[#out + 1] = letter
      end
    end
  else
    out = implied(all)
  end
  a, letters_a = simplify(a, letters_a, set_of(out, letters_b))
  if not two then return arranged(a, letters_a, out) end
  b, letters_b = simplify(b, letters_b, set_of(out, letters_a))
  a, letters_a = simplify(a, letters_a, set_of(out, letters_b))
  return contract(a, letters_a, b, letters_b, out)
end

---All products of two vectors' elements.
function Tensor.outer(t, other)
  options.tensor("outer", "other", other)
  if t.ndim ~= 1 or other.ndim ~= 1 then
    fail("outer: needs two vectors, got %s and %s", shape_text(t), shape_text(other))
  end
  return t:unsqueeze(2) * other:unsqueeze(1)
end

---The sum of the products of two vectors' elements.
function Tensor.dot(t, other)
  options.tensor("dot", "other", other)
  if t.ndim ~= 1 or other.ndim ~= 1 or t.shape[1] ~= other.shape[1] then
    fail("dot: needs two vectors of one length, got %s and %s", shape_text(t), shape_text(other))
  end
  return t:matmul(other)
end

return core.einsum
