-- tensor.lua: tensor methods that are compositions of the core's primitives: statistics, soft maxima, selection
-- and comparison. Their gradients are those of the primitives, so each composition is written such that these
-- are right: where a formula has a pole, its operand is replaced before the pole is evaluated.

local core = require "ctrain.core"
local options = require "ctrain.options"

local Tensor = core.Tensor
local fail, integer, dim_of = options.fail, options.integer, options.dim
local is_tensor, signature = options.is_tensor, options.signature
local where = core.where

local floating = { float16 = true, bfloat16 = true, float32 = true, float64 = true }

---@param t tensor
---@return boolean
function Tensor.is_floating_point(t) return floating[t.dtype] == true end

---@return integer number of dimensions
function Tensor.dim(t) return t.ndim end

---The shape, or the extent of one dimension.
---@param dim integer?
function Tensor.size(t, dim)
  local shape = t.shape
  return dim and shape[dim_of("size", dim, t.ndim, shape)] or shape
end

-- A 0-d constant of t's dtype.
local function constant(t, value)
  return core.full({}, value, { dtype = t.dtype })
end

-- The dimensions a reduction runs over: a number, a list or nil (all), as a set and a list.
local function dims_of(name, t, dim)
  local ndim, shape, set, list = t.ndim, t.shape, {}, {}
  if dim == nil then
    for d = 1, ndim do list[d] = d end
    dim = list
  elseif type(dim) ~= "table" then
    dim = { dim }
  end
  list = {}
  for _, d in ipairs(dim) do
    d = dim_of(name, d, ndim, shape)
    if set[d] then fail("%s: dim %d is given twice", name, d) end
    set[d] = true
    if ndim > 0 then list[#list + 1] = d end
  end
  local count = 1
  for _, d in ipairs(list) do count = count * shape[d] end
  return list, count
end

-- The square root with gradient 0 at 0, for lengths and deviations.
local function root(t)
  local positive = t:ne(0)
  return where(positive, where(positive, t, constant(t, 1)):sqrt(), t)
end

local function require_floating(name, t)
  if not floating[t.dtype] then fail("%s: needs a floating tensor, not %s", name, t.dtype) end
end

-- Largest elements, without their positions; a constant to the gradient.
local function shift_of(t, dim)
  return t:detach():amax(dim, true)
end

---exp(x) / sum(exp(x)) along a dimension.
---@param dim integer
function Tensor.softmax(t, dim)
  dim = dim_of("softmax", dim, t.ndim, t.shape)
  if t:numel() == 0 then return t:exp() end
  if t.ndim == 0 then return t:unsqueeze(1):softmax(1):squeeze(1) end
  local e = (t - shift_of(t, dim)):exp()
  return e / e:sum(dim, true)
end

---The logarithm of softmax, computed without its underflow.
---@param dim integer
function Tensor.log_softmax(t, dim)
  dim = dim_of("log_softmax", dim, t.ndim, t.shape)
  if t:numel() == 0 then return t:exp() end
  if t.ndim == 0 then return t:unsqueeze(1):log_softmax(1):squeeze(1) end
  local shifted = t - shift_of(t, dim)
  return shifted - shifted:exp():sum(dim, true):log()
end

local logsumexp_arguments = signature("logsumexp", {}, { "dim", "keepdim" }, { keepdim = false })

---log(sum(exp(x))) over one or several dimensions.
function Tensor.logsumexp(t, ...)
  local o = logsumexp_arguments(...)
  local list, count = dims_of("logsumexp", t, o.dim)
  if #list == 0 then return t:exp():log() end
  if count == 0 or t:numel() == 0 then return t:exp():sum(list, o.keepdim):log() end
  local shift = shift_of(t, list)
  -- an infinite maximum would make inf - inf
  shift = where(shift:abs():eq(math.huge), constant(shift, 0), shift)
  local result = (t - shift):exp():sum(list, true):log() + shift
  if o.keepdim then return result end
  table.sort(list)
  for i = #list, 1, -1 do result = result:squeeze(list[i]) end
  return result
end

local function variance(name, t, o)
  require_floating(name, t)
  local correction = o.correction
  if o.unbiased ~= nil then
    if o.correction ~= nil then fail("%s: give unbiased or correction, not both", name) end
    correction = options.boolean(name, "unbiased", o.unbiased) and 1 or 0
  end
  correction = options.number(name, "correction", correction or 1)
  local list, count = dims_of(name, t, o.dim)
  local d = t - t:mean(list, true)
  d = d - d:mean(list, true) -- the mean was rounded; at 1e4 and a deviation of 1e-3 that counts
  return (d * d):sum(list, o.keepdim) / math.max(count - correction, 0)
end

local function moment_arguments(name)
  local reader = signature(name, {}, { "dim", "unbiased", "keepdim", "correction" }, { keepdim = false })
  return function(first, ...)
    if type(first) == "boolean" then return reader(nil, first, ...) end -- var(unbiased)
    return reader(first, ...)
  end
end

local var_arguments, std_arguments = moment_arguments "var", moment_arguments "std"

---Variance in two passes; divided by count - correction (1 unless told; `unbiased = false` means 0).
function Tensor.var(t, ...)
  return variance("var", t, var_arguments(...))
end

---Standard deviation; its gradient is 0 where it is 0.
function Tensor.std(t, ...)
  return root(variance("std", t, std_arguments(...)))
end

local norm_arguments = signature("norm", {}, { "p", "dim", "keepdim" }, { p = 2, keepdim = false })

---The p-norm of the elements, over all or some dimensions; its gradient at the origin is 0.
function Tensor.norm(t, ...)
  local o = norm_arguments(...)
  require_floating("norm", t)
  local p, keepdim = o.p, o.keepdim
  if p == "fro" then p = 2 elseif p == "inf" then p = math.huge end
  if type(p) ~= "number" or p ~= p then fail("norm: p must be a number, not %s", options.describe_value(o.p)) end
  local list = dims_of("norm", t, o.dim)
  if p == 2 then return root((t * t):sum(list, keepdim)) end
  local a = t:abs()
  if p == 1 then return a:sum(list, keepdim) end
  if p == 0 then return a:ne(0):to(t.dtype):sum(list, keepdim) end
  if math.abs(p) == math.huge then
    if #list == 0 then return a end
    return p > 0 and a:amax(list, keepdim) or a:amin(list, keepdim)
  end
  if p < 0 then return a:pow(p):sum(list, keepdim):pow(1 / p) end
  local zero = a:eq(0)
  local sum = where(zero, constant(a, 0), where(zero, constant(a, 1), a):pow(p)):sum(list, keepdim)
  local none = sum:eq(0)
  return where(none, constant(sum, 0), where(none, constant(sum, 1), sum):pow(1 / p))
end

---The elements brought into [low, high]; either bound may be nil, a number or a tensor. NaN stays NaN.
function Tensor.clamp(t, low, high)
  if type(low) == "table" then
    local o = options.check(low, { min = options.none, max = options.none }, "clamp")
    low, high = o.min, o.max
  end
  if low == nil and high == nil then fail("clamp: give min, max or both") end
  if low ~= nil then t = where(t:lt(low), low, t) end
  if high ~= nil then t = where(t:gt(high), high, t) end
  return t
end

function Tensor.clamp_min(t, low) return t:clamp(low) end

function Tensor.clamp_max(t, high) return t:clamp(nil, high) end

---max(x, 0), with gradient 0 at 0.
function Tensor.relu(t)
  return where(t:le(0), 0, t)
end

function Tensor.square(t) return t * t end

function Tensor.reciprocal(t) return 1 / t end

function Tensor.log2(t) return t:log() * (1 / math.log(2)) end

function Tensor.log10(t) return t:log() * (1 / math.log(10)) end

---t + weight * (other - t), exact at both ends.
---@param weight number|tensor
function Tensor.lerp(t, other, weight)
  local step = other - t
  if type(weight) == "number" then
    return weight < 0.5 and t + step * weight or other - step * (1 - weight)
  end
  return where(weight:lt(0.5), t + step * weight, other - step * (1 - weight))
end

---The tensor with `value` where the mask is true, in its own dtype.
---@param mask tensor of bool
---@param value number|boolean|tensor
function Tensor.masked_fill(t, mask, value)
  options.tensor("masked_fill", "mask", mask)
  if mask.dtype ~= "bool" then fail("masked_fill: the mask must be bool, not %s", mask.dtype) end
  if not is_tensor(value) then
    if type(value) == "number" and not floating[t.dtype] and value ~= math.floor(value) then
      fail("masked_fill: %s does not fit into a tensor of %s", options.describe_value(value), t.dtype)
    end
    value = constant(t, value)
  elseif value:is_floating_point() and not floating[t.dtype] then
    fail("masked_fill: values of %s do not fit into a tensor of %s", value.dtype, t.dtype)
  end
  return where(mask, value:to(t.dtype), t)
end

---Where an element is a NaN.
function Tensor.isnan(t) return t:ne(t) end

---Where an element is inf or -inf.
function Tensor.isinf(t)
  if not floating[t.dtype] then return core.zeros(t.shape, { dtype = "bool" }) end
  return t:abs():eq(math.huge)
end

---The tensor converted to the type of another.
function Tensor.type_as(t, other)
  if not is_tensor(other) then fail("type_as: other must be a tensor, not %s", options.describe_value(other)) end
  return t:to(other.dtype)
end

---Random integers, low <= n < high, of the tensor's shape and type.
function Tensor.randint_like(t, low, high) return core.randint(low, high, t.shape, { dtype = t.dtype }) end

---Where an element is neither infinite nor a NaN.
function Tensor.isfinite(t)
  if not floating[t.dtype] then return core.ones(t.shape, { dtype = "bool" }) end
  return t:abs():lt(math.huge)
end

local function truth(t)
  local value = t:all():item()
  return value == true or value == 1
end

local close_names = { "rtol", "atol", "equal_nan" }
local close_defaults = { rtol = 1e-5, atol = 1e-8, equal_nan = false }
local isclose_arguments = signature("isclose", { "other" }, close_names, close_defaults)
local allclose_arguments = signature("allclose", { "other" }, close_names, close_defaults)

local function closeness(t, o)
  local a, b = t, o.other
  if not is_tensor(b) then b = constant(a, b) end
  if not floating[a.dtype] then a = a:double() end
  if not floating[b.dtype] then b = b:double() end
  -- equal infinities are close, and their difference is a NaN
  local close = (a - b):abs():le(b:abs() * o.rtol + o.atol):logical_and(b:isfinite()):logical_or(a:eq(b))
  if o.equal_nan then close = close:logical_or(a:isnan():logical_and(b:isnan())) end
  return close
end

---Where |a - b| <= atol + rtol * |b|.
function Tensor.isclose(t, ...)
  return closeness(t, isclose_arguments(...))
end

---Whether all elements are close; a Lua boolean.
---@return boolean
function Tensor.allclose(t, ...)
  return truth(closeness(t, allclose_arguments(...)))
end

---Whether shapes and all elements are equal; a Lua boolean.
---@return boolean
function Tensor.equal(t, other)
  options.tensor("equal", "other", other)
  local a, b = t.shape, other.shape
  if #a ~= #b then return false end
  for d = 1, #a do
    if a[d] ~= b[d] then return false end
  end
  return truth(t:eq(other))
end

local sort_arguments = signature("sort", {}, { "dim", "descending" }, { dim = -1, descending = false })

---Sorted elements along a dimension, and the positions (from 0) they came from. Stable; NaN counts as largest.
---@return tensor values, tensor indices
function Tensor.sort(t, ...)
  local o = sort_arguments(...)
  local dim = dim_of("sort", o.dim, t.ndim, t.shape)
  if t.ndim == 0 then
    local values, indices = t:unsqueeze(1):sort(1)
    return values:squeeze(1), indices:squeeze(1)
  end
  local indices = t:argsort(dim, o.descending)
  return t:gather(dim, indices), indices
end

local topk_arguments = signature("topk", { "k" }, { "dim", "largest", "sorted" },
  { dim = -1, largest = true, sorted = true })

---The k largest (or smallest) elements along a dimension, in order, and their positions (from 0).
---@return tensor values, tensor indices
function Tensor.topk(t, ...)
  local o = topk_arguments(...)
  local dim, shape = dim_of("topk", o.dim, t.ndim, t.shape), t.shape
  local k = integer("topk", "k", o.k, 0)
  if k > (shape[dim] or 1) then
    fail("topk: k is %d, but dim %d of the %s tensor has %d elements", k, dim, options.shape_text(shape),
      shape[dim] or 1)
  end
  if t.ndim == 0 then
    local values, indices = t:unsqueeze(1):topk(k, 1)
    return values:squeeze(1), indices:squeeze(1)
  end
  local indices = t:argsort(dim, o.largest):narrow(dim, 1, k):contiguous()
  return t:gather(dim, indices), indices
end

---A new last dimension with a 1 at each element's value; values count from 0 and are checked.
---@param classes integer? number of classes; default: the largest value + 1
function Tensor.one_hot(t, classes)
  if type(classes) == "table" then
    classes = options.check(classes, { num_classes = options.none }, "one_hot").num_classes
  end
  if floating[t.dtype] or t.dtype == "bool" then fail("one_hot: needs an integer tensor, not %s", t.dtype) end
  if classes == nil or classes == -1 then
    if t:numel() == 0 then fail("one_hot: give num_classes for an empty tensor") end
    classes = t:amax():item() + 1
  end
  local shape = t.shape
  shape[#shape + 1] = integer("one_hot", "num_classes", classes, 0)
  local index = t:to("int64"):unsqueeze(-1)
  return core.zeros(shape, { dtype = "int64" }):scatter_add(-1, index, core.ones_like(index))
end

-- In-place twins.
for _, name in ipairs { "clamp", "clamp_min", "clamp_max", "lerp", "masked_fill", "relu", "square", "reciprocal",
  "log2", "log10" } do
  local compute = Tensor[name]
  Tensor[name .. "_"] = function(t, ...)
    local result = compute(t, ...)
    if floating[result.dtype] and not floating[t.dtype] then
      fail("%s_: the result is %s, which does not fit into a tensor of %s; convert it first", name, result.dtype,
        t.dtype)
    end
    return t:copy_(result)
  end
end

require "ctrain.arrange"
require "ctrain.einsum"

return Tensor
