-- Indexed reads and writes, and orders: what movement_spec.lua leaves, and what wrong indexes are told.
local ct = require "ctrain"
local gradient = require "spec.support.gradient"
local random = require "spec.support.random"
local reference = require "spec.support.reference"
local tensors = require "spec.support.tensors"

local nan, inf = 0 / 0, math.huge

local function int64(list) return ct.tensor(list, { dtype = "int64" }) end
local function none(...) return ct.zeros({ ... }, "int64") end

local function fails(f, ...)
  local ok, message = pcall(f)
  assert.is_false(ok)
  for _, part in ipairs { ... } do
    assert.is_truthy(tostring(message):find(part, 1, true), tostring(message))
  end
end

describe("gather", function()
  it("takes elements of every dtype", function()
    for _, dtype in ipairs(tensors.dtypes) do
      local t = tensors.make(reference.array({ 2, 3 }, { 1, 0, 1, 0, 1, 0 }), dtype)
      local result = t:gather(2, int64 { { 2, 1 }, { 1, 0 } })
      assert.equal(dtype, result.dtype)
      tensors.equal(result, reference.array({ 2, 2 }, { 1, 0, 1, 0 }), dtype)
    end
  end)

  it("takes indexes of every integer dtype, transposed and expanded ones too", function()
    local t = ct.tensor { { 1, 2, 3 }, { 4, 5, 6 } }
    for _, dtype in ipairs(tensors.integer_dtypes) do
      local index = ct.tensor({ { 0, 2 }, { 1, 1 } }, { dtype = dtype })
      assert.same({ { 1, 2 }, { 6, 5 } }, t:gather(2, index:t()):totable())
      assert.same({ { 1, 3 }, { 4, 6 } }, t:gather(2, index[{ { 1, 1 } }]:expand(2, 2)):totable())
    end
  end)

  it("along each of three dimensions agrees with plain loops, in every layout", function()
    local generator = random.new(41)
    local a = tensors.uniform(generator, { 3, 4, 5 }, -1, 1)
    for d = 1, 3 do
      local shape = { 3, 4, 5 }
      shape[d] = 7
      local picks = tensors.integers(generator, shape, 0, a.shape[d] - 1)
      local expected = reference.array(shape, function(i)
        local at = reference.unravel(shape, i)
        at[d] = picks[i]
        return a[reference.ravel(a.shape, at)]
      end)
      for _, layout in ipairs(tensors.layouts) do
        local result = tensors.make(a, "float64", layout):gather(d, tensors.make(picks, "int64", layout))
        tensors.equal(result, expected, layout)
      end
    end
  end)

  it("with no indexes takes nothing, also from an empty tensor", function()
    assert.same({ 0, 4 }, ct.zeros(3, 4):gather(1, none(0, 4)).shape)
    assert.same({ 0, 4 }, ct.zeros(0, 4):gather(1, none(0, 4)).shape)
  end)

  it("names an index out of range and the extent", function()
    local t, index = ct.zeros(1, 4), int64 { { 0, 4 } }
    fails(function() return t:gather(2, index) end, "gather", "index 4", "extent of 4")
    index = int64 { { -1, 0 } }
    fails(function() return t:gather(2, index) end, "gather", "index -1", "extent of 4")
  end)

  it("refuses indexes that are no integers, and shapes that do not fit", function()
    local t = ct.zeros(3, 4)
    fails(function() return t:gather(2, ct.zeros(3, 2)) end, "must hold integers, not float32")
    fails(function() return t:gather(2, none(2)) end, "gather", "shape 2", "shape 3x4")
    fails(function() return t:gather(3, none(3, 4)) end, "'dim' is 3", "2 dimensions")
  end)
end)

describe("scatter_add", function()
  it("leaves the tensor it starts from alone", function()
    local base = ct.tensor { 3, 1 }
    assert.same({ 6, 1 }, base:scatter_add(1, int64 { 0, 0, 0 }, ct.ones(3)):totable())
    assert.same({ 3, 1 }, base:totable())
  end)

  it("along each of three dimensions agrees with plain loops, in every layout", function()
    local generator = random.new(42)
    local a = tensors.integers(generator, { 3, 4, 5 }, -9, 9)
    for d = 1, 3 do
      local shape = { 3, 4, 5 }
      shape[d] = 11
      local places = tensors.integers(generator, shape, 0, a.shape[d] - 1)
      local added = tensors.integers(generator, shape, -9, 9)
      local expected = reference.map(a, function(x) return x end)
      for i = 1, #added do
        local at = reference.unravel(shape, i)
        at[d] = places[i]
        local k = reference.ravel(a.shape, at)
        expected[k] = expected[k] + added[i]
      end
      for _, layout in ipairs(tensors.layouts) do
        for _, dtype in ipairs { "float32", "int32", "float64" } do
          local result = tensors.make(a, dtype, layout):scatter_add(d, tensors.make(places, "int64", layout),
            tensors.make(added, dtype, layout))
          tensors.equal(result, expected, dtype .. " " .. layout)
        end
      end
    end
  end)

  it("adds in the order of the source's elements, whatever their number", function()
    -- 2^24 + 1 + 1 is 2^24 in float32 when added one by one in this order, 2^24 + 2 in another
    local source = ct.cat({ ct.full({ 1 }, 2 ^ 24), ct.ones(70000) })
    assert.equal(2 ^ 24, ct.zeros(1):scatter_add(1, none(70001), source):item())
  end)

  it("names an index out of range, and what was there stays", function()
    local base = ct.ones(3)
    local index = int64 { 0, 3 }
    fails(function() return base:scatter_add(1, index, ct.ones(2)) end, "scatter_add", "index 3", "extent of 3")
    assert.same({ 1, 1, 1 }, base:totable())
  end)
end)

describe("index_select", function()
  it("of no rows is empty", function()
    assert.same({ 0, 4 }, ct.zeros(3, 4):index_select(1, none(0)).shape)
  end)

  it("from a transposed and an expanded tensor takes what their copies have", function()
    local t = ct.arange(12):reshape(3, 4)
    local index = int64 { 3, 0, 3 }
    tensors.identical(t:t():index_select(1, index), t:t():contiguous():index_select(1, index))
    local wide = t[1]:expand(5, 4)
    tensors.identical(wide:index_select(2, index), wide:clone():index_select(2, index))
  end)

  it("names an index out of range and the extent", function()
    local t = ct.zeros(3, 4)
    fails(function() return t:index_select(1, int64 { 0, 3 }) end, "index_select", "index 3", "extent of 3")
    fails(function() return t:index_select(2, int64 { -1 }) end, "index_select", "index -1", "extent of 4")
    fails(function() return t:index_select(1, none(1, 1)) end, "index_select", "1 dimension, not 2")
  end)
end)

describe("one_hot", function()
  it("infers the number of classes from the largest", function()
    assert.same({ { 0, 1 }, { 1, 0 } }, int64({ 1, 0 }):one_hot():totable())
    assert.same({ 0, 3 }, none(0):one_hot(3).shape)
  end)

  it("names a label out of range and the number of classes", function()
    fails(function() return int64({ 0, 3 }):one_hot(3) end, "index 3", "extent of 3")
    fails(function() return int64({ -1 }):one_hot(3) end, "index -1", "extent of 3")
    fails(function() return ct.tensor({ 0.5 }):one_hot(3) end, "one_hot", "integer tensor, not float32")
  end)
end)

describe("argsort", function()
  it("keeps equal elements in order, ascending and descending", function()
    local t = ct.tensor { 1, 0, 1, 0, 1 }
    assert.same({ 1, 3, 0, 2, 4 }, t:argsort():totable())
    assert.same({ 0, 2, 4, 1, 3 }, t:argsort(1, true):totable())
  end)

  it("keeps equal elements in order in lines longer than a block", function()
    local t = ct.arange(10000) % 3
    local order = t:argsort()
    local sorted = t:gather(1, order)
    local steps = order[{ { 2, 10000 } }] - order[{ { 1, 9999 } }]
    local same = sorted[{ { 2, 10000 } }]:eq(sorted[{ { 1, 9999 } }])
    assert.is_true(ct.where(same, steps:gt(0), steps:eq(steps)):all():item())
    assert.equal(0, sorted[1]:item())
    assert.equal(2, sorted[-1]:item())
  end)

  it("takes a NaN for the largest, infinities for what they are", function()
    assert.same({ 2, 1, 3, 0 }, ct.tensor({ nan, 1, -inf, inf }):argsort():totable())
    assert.same({ 0, 3, 1, 2 }, ct.tensor({ nan, 1, -inf, inf }):argsort(1, true):totable())
  end)

  it("takes every dtype", function()
    for _, dtype in ipairs(tensors.dtypes) do
      assert.same({ 1, 0, 2 }, tensors.make(reference.array({ 3 }, { 1, 0, 1 }), dtype):argsort():totable())
    end
  end)

  it("of an empty tensor is empty, of a 0-d one 0", function()
    assert.same({ 0 }, ct.zeros(0):argsort().shape)
    local order = ct.tensor(3):argsort()
    assert.same({ {}, "int64", 0 }, { order.shape, order.dtype, order:item() })
  end)
end)

describe("topk", function()
  it("of 0 elements is empty, of too many is refused", function()
    assert.same({ 2, 0 }, (ct.zeros(2, 3):topk(0)).shape)
    fails(function() return ct.zeros(2, 3):topk(4) end, "topk", "k is 4", "3 elements")
    fails(function() return ct.zeros(2, 3):topk(2.5) end, "topk", "k")
  end)

  it("along a dimension that is not the last takes columns", function()
    local values, order = ct.tensor({ { 1, 9 }, { 7, 2 }, { 4, 5 } }):topk(2, 1)
    assert.same({ { 7, 9 }, { 4, 5 } }, values:totable())
    assert.same({ { 1, 0 }, { 2, 2 } }, order:totable())
  end)
end)

describe("nonzero", function()
  it("of a vector, a 0-d tensor and an empty one has a column a dimension", function()
    assert.same({ { 1 }, { 3 } }, ct.tensor({ 0, 5, 0, nan }):nonzero():totable())
    assert.same({ 1, 0 }, ct.tensor(3):nonzero().shape)
    assert.same({ 0, 2 }, ct.zeros(0, 3):nonzero().shape)
  end)

  it("follows C order in a transposed tensor", function()
    assert.same({ { 0, 1 }, { 1, 0 } }, ct.tensor({ { 0, 1 }, { 1, 0 } }):t():nonzero():totable())
    assert.same({ { 0, 0 }, { 0, 1 } }, ct.tensor({ { 1, 0 }, { 1, 0 } }):t():nonzero():totable())
  end)
end)

describe("an index shorter than its tensor", function()
  local t = ct.tensor({ { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 } }, { dtype = "float64" })

  it("gathers from the leading part", function()
    assert.same({ { 3, 1 } }, t:gather(2, int64 { { 2, 0 } }):totable())
    assert.same({ { 7, 5 }, { 1, 2 } }, t:gather(1, int64 { { 2, 1 }, { 0, 0 } }):totable())
  end)

  it("adds the leading part of the source to the leading part of the tensor", function()
    local source = ct.tensor({ { 10, 20, 30 }, { 1, 1, 1 } }, { dtype = "float64" })
    local result = t:scatter_add(2, int64 { { 2, 2 } }, source)
    assert.same({ { 1, 2, 33 }, { 4, 5, 6 }, { 7, 8, 9 } }, result:totable())
  end)

  it("has the gradients that differences give", function()
    local index = int64 { { 2, 0 }, { 0, 0 } }
    local a = tensors.uniform(random.new(1), { 3, 3 }, -1, 1)
    local b = tensors.uniform(random.new(2), { 2, 4 }, -1, 1)
    gradient.check(function(x) return x:gather(1, index) end, { a })
    gradient.check(function(x, y) return x:scatter_add(1, index, y) end, { a, b })
  end)

  it("is refused where it is longer", function()
    fails(function() return t:gather(1, none(1, 4)) end, "gather", "1x4", "3x3")
    fails(function() return t:scatter_add(1, none(1, 2), ct.zeros({ 1, 1 }, "float64")) end, "1x2", "1x1")
  end)
end)

describe("many addends to one place", function()
  it("count in float16 and bfloat16, where each alone would be rounded away", function()
    for _, dtype in ipairs { "float16", "bfloat16" } do
      local sum = ct.zeros({ 1 }, dtype):scatter_add(1, none(8192), ct.ones({ 8192 }, dtype))
      assert.equal(dtype, sum.dtype)
      assert.equal(8192, sum:item())
      local w = ct.zeros({ 2, 1 }, dtype):requires_grad_(true)
      w:index_select(1, none(8192)):sum():backward()
      assert.equal(8192, w.grad[1]:item())
    end
  end)
end)
