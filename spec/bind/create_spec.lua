-- Creation: values, shapes, dtypes, ways to give arguments, and what tensors hand back to Lua.
local ct = require "ctrain"
local reference = require "spec.support.reference"
local tensors = require "spec.support.tensors"

describe("creation", function()
  it("takes a shape as a list or as numbers, and options last", function()
    assert.same({ 2, 3 }, ct.zeros(2, 3).shape)
    assert.same({ 2, 3 }, ct.zeros({ 2, 3 }).shape)
    assert.equal("float64", ct.zeros({ 2, 3 }, "float64").dtype)
    assert.equal("float64", ct.zeros({ 2, 3 }, { dtype = "float64" }).dtype)
    assert.equal("int8", ct.zeros({ 2 }, { dtype = ct.int8 }).dtype)
    assert.is_true(ct.zeros({ 2 }, { requires_grad = true }).requires_grad)
    assert.equal(0, ct.zeros({}).ndim)
  end)

  it("fills with every value in every dtype", function()
    for _, dtype in ipairs(tensors.dtypes) do
      local one = dtype == "bool" and 1 or 7
      tensors.equal(ct.full({ 2, 3 }, one, dtype), reference.array({ 2, 3 }, one), dtype)
      tensors.equal(ct.ones({ 5 }, dtype), reference.array({ 5 }, 1), dtype)
      tensors.equal(ct.zeros({ 5 }, dtype), reference.array({ 5 }, 0), dtype)
    end
  end)

  it("_like takes shape and dtype from another, and other options when given", function()
    local t = ct.zeros({ 2, 3 }, "float64")
    local like = ct.full_like(t, 4)
    assert.equal("float64", like.dtype)
    tensors.equal(like, reference.array({ 2, 3 }, 4))
    assert.equal("int32", ct.ones_like(t, "int32").dtype)
    assert.same({ 2, 3 }, ct.zeros_like(t).shape)
    assert.equal("float64", ct.randn_like(t).dtype)
  end)

  it("arange counts as torch's, in either direction", function()
    assert.same({ 0, 1, 2 }, ct.arange(3):totable())
    assert.same({ 2, 3, 4 }, ct.arange(2, 5):totable())
    assert.same({ 5, 3, 1 }, ct.arange(5, 0, -2):totable())
    assert.same({ 0, 0.25, 0.5, 0.75 }, ct.arange(0, 1, 0.25):totable())
    assert.same({ 0 }, ct.arange(0).shape)
    assert.equal("int64", ct.arange(3).dtype)
    assert.equal("float32", ct.arange(0, 1, 0.5).dtype)
    assert.has_error(function() ct.arange(0, 5, 0) end)
  end)

  it("linspace reaches both ends", function()
    local t = ct.linspace(-1, 1, 5, { dtype = "float64" })
    assert.same({ -1, -0.5, 0, 0.5, 1 }, t:totable())
    assert.same({ 3 }, ct.linspace(3, 9, 1):totable())
  end)

  it("eye has ones on the diagonal, square and not", function()
    assert.same({ { 1, 0, 0 }, { 0, 1, 0 } }, ct.eye(2, 3):totable())
    assert.same({ { 1, 0 }, { 0, 1 } }, ct.eye(2):totable())
  end)

  it("tensor reads nested tables, numbers and booleans", function()
    assert.same({ 2, 1, 2 }, ct.tensor({ { { 1, 2 } }, { { 3, 4 } } }).shape)
    assert.equal("bool", ct.tensor({ true, false }).dtype)
    assert.equal("float32", ct.tensor(1).dtype)
    assert.equal("float32", ct.tensor({ 1, 2.5 }).dtype)
    assert.equal(0, ct.tensor(5).ndim)
    assert.same({ 0 }, ct.tensor({}).shape)
  end)

  it("tensor copies a tensor it is given", function()
    local a = ct.ones(2)
    local b = ct.tensor(a)
    b:fill_(3)
    assert.same({ 1, 1 }, a:totable())
  end)

  it("totable gives back what tensor read, for every shape and layout", function()
    tensors.each_layout(function(shape, layout, label)
      local a = reference.array(shape, function(i) return i end)
      tensors.equal(tensors.make(a, "float32", layout), a, label)
    end)
    assert.same({ { 1, 2 }, { 3, 4 } }, ct.tensor({ { 1, 2 }, { 3, 4 } }):totable())
    assert.equal(5, ct.tensor(5):totable())
    assert.same({}, ct.zeros(0):totable())
  end)
end)

describe("a tensor in Lua", function()
  it("has its fields, and # gives the first extent", function()
    local t = ct.zeros({ 4, 2 }, "int16")
    assert.same({ 4, 2 }, t.shape)
    assert.equal("int16", t.dtype)
    assert.equal(2, t.ndim)
    assert.equal(4, #t)
    assert.equal(8, t:numel())
    assert.is_nil(t.grad)
    assert.is_false(t.requires_grad)
  end)

  it("hands out shapes that can be changed without harm", function()
    local t = ct.zeros(2, 3)
    t.shape[1] = 99
    assert.same({ 2, 3 }, t.shape)
  end)

  it("takes numbers on both sides of its operators", function()
    local t = ct.tensor { 1, 2, 4 }
    assert.same({ 9, 8, 6 }, (10 - t):totable())
    assert.same({ 4, 2, 1 }, (4 / t):totable())
    assert.same({ 2, 4, 16 }, (2 ^ t):totable())
    assert.same({ 1, 2, 0 }, (5 % (t + 1)):totable())
    assert.same({ -1, -2, -4 }, (-t):totable())
    assert.same({ 1, 4, 16 }, (t ^ 2):totable())
  end)

  it("is written by index, by range, and by tensor", function()
    local t = ct.zeros(3, 4)
    t[2] = 1
    t[{ 1, { 2, 3 } }] = ct.tensor { 5, 6 }
    t[{ {}, -1 }] = 9
    t[{ 3, 1 }] = -2
    assert.same({ { 0, 5, 6, 9 }, { 1, 1, 1, 9 }, { -2, 0, 0, 9 } }, t:totable())
  end)

  it("chains methods, and every method is a function of ct too", function()
    local t = ct.tensor { 1, 4, 9 }
    assert.same(t:sqrt():add(1):mul(2):totable(), ct.mul(ct.add(ct.sqrt(t), 1), 2):totable())
  end)

  it("item gives the one element as a plain Lua value", function()
    assert.equal(2.5, ct.tensor(2.5):item())
    assert.is_true(ct.tensor({ { true } }):item())
    assert.equal(7, tonumber(ct.full({ 1, 1 }, 7, "int64"):item()))
  end)
end)
