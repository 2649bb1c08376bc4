-- Every kind of operation on tensors that reach their elements by chains of random views (transposed, flipped, sliced
-- with steps, expanded): the bits are those of a contiguous copy.
local ct = require "ctrain"
local random = require "spec.support.random"
local tensors = require "spec.support.tensors"

local generator = random.new(2024)
local extents = { 1, 3, 5, 9, 70 }

local function pick(n) return generator:integer(1, n) end

local function filled(shape, dtype)
  if dtype == "bool" then return ct.rand(shape):gt(0.5) end
  if dtype:find("int") then return ct.randint(0, 100, shape, { dtype = dtype }) end
  return ct.randn(shape):to(dtype)
end

local function random_view()
  local shape = {}
  for d = 1, pick(4) do shape[d] = generator:pick(extents) end
  local t = filled(shape, generator:pick(tensors.dtypes))
  for _ = 1, pick(4) - 1 do
    local kind, d = pick(5), pick(t.ndim)
    local sizes = t.shape
    if kind == 1 then
      t = t:transpose(d, pick(t.ndim))
    elseif kind == 2 then
      t = t:flip(d)
    elseif kind == 3 then
      t = t:slice(d, pick(sizes[d]), sizes[d], pick(3))
    elseif kind == 4 and t.ndim < 5 then
      table.insert(sizes, 1, pick(4))
      t = t:expand(sizes)
    elseif sizes[d] == 1 then
      sizes[d] = pick(40)
      t = t:expand(sizes)
    end
  end
  return t
end

local function dims_of(t)
  local dims = {}
  for d = 1, t.ndim do
    if generator:uniform() < 0.5 then dims[#dims + 1] = d end
  end
  return #dims > 0 and dims or nil
end

-- name, function of (tensor, one dimension, several dimensions or nil); `accepts`: of which dtypes
local function number(dtype) return dtype ~= "bool" end
local function floating(dtype) return dtype:find("float") ~= nil end

local cases = {
  { "sum", function(t, _, dims) return t:sum(dims) end },
  { "prod", function(t, _, dims) return t:prod(dims) end },
  { "mean", function(t, _, dims) return t:mean(dims) end },
  { "amax", function(t, _, dims) return t:amax(dims) end },
  { "amin", function(t, _, dims) return t:amin(dims) end },
  { "any and all", function(t, _, dims) return t:any(dims), t:all(dims) end },
  { "var", function(t, _, dims) return t:var(dims, false) end, floating },
  { "argmax and argmin", function(t, d) return t:argmax(d), t:argmin(d) end },
  { "cumsum", function(t, d) return t:cumsum(d) end, number },
  { "sort", function(t, d) return t:sort(d, true) end },
  { "softmax and log_softmax", function(t, d) return t:softmax(d), t:log_softmax(d) end, floating },
  { "element-wise functions", function(t) return t:exp(), t + t, t:eq(t), ct.where(t:ne(0), t, t) end },
  { "casts", function(t) return t:float(), t:half(), t:to("int64"), t:bool(), t:double() end },
  { "gather", function(t, d) return t:gather(d, t:argsort(d)) end },
  { "scatter_add", function(t, d) return t:scatter_add(d, t:argsort(d), t) end },
  { "nonzero", function(t) return t:nonzero() end },
  { "cat and reshape", function(t, d) return ct.cat({ t, t }, d), t:reshape(-1) end },
  { "matmul with its transpose", function(t)
    if t.ndim < 2 then t = t:unsqueeze(1) end
    return t:long():matmul(t:long():transpose(-1, -2))
  end },
  { "writes into a view", function(t, d)
    local base = ct.zeros({ 2, t:numel() }, t.dtype)
    base[1]:reshape(t.shape):copy_(t)
    base[2]:reshape(t.shape):flip(d):copy_(t)
    return base
  end },
}

describe("of random views,", function()
  ct.manual_seed(7)
  local views = {}
  for i = 1, 150 do
    local t
    repeat t = random_view() until t:numel() <= 5000
    local copy = t:contiguous():clone()
    views[i] = { t = t, copy = copy, dim = pick(t.ndim), dims = dims_of(t) }
  end

  for _, case in ipairs(cases) do
    it(case[1] .. " is that of their copies, bit for bit", function()
      local compared = 0
      for i, v in ipairs(views) do
        if not case[3] or case[3](v.t.dtype) then
          local got, expected = { case[2](v.t, v.dim, v.dims) }, { case[2](v.copy, v.dim, v.dims) }
          for k = 1, #expected do
            local what = ("view %d (%s %s)"):format(i, v.t.dtype, tensors.shape_text(v.t.shape))
            assert.equal(expected[k].dtype, got[k].dtype)
            tensors.has_shape(got[k], expected[k].shape)
            local a, b = got[k]:reshape(-1), expected[k]:reshape(-1)
            if not a:eq(b):logical_or(a:ne(a):logical_and(b:ne(b))):all():item() then
              tensors.identical(got[k], expected[k], what)
            end
            compared = compared + 1
          end
        end
      end
      assert.is_true(compared >= 30)
    end)
  end
end)
