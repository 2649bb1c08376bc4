-- The order of reads and writes, and views of one cell: a value computed keeps what it read, a write is seen by every
-- view, in whatever order they come.
local ct = require "ctrain"

local function values(t) return t:totable() end

describe("a value", function()
  it("keeps the elements it read when they are written later", function()
    local x = ct.ones(3)
    local y = x + 10
    x[1] = 9
    assert.same({ 11, 11, 11 }, values(y))
    assert.same({ 9, 1, 1 }, values(x))
  end)

  it("that a gradient needs keeps them too", function()
    local x = ct.tensor { 1, 2, 3 }
    local w = ct.ones(3):requires_grad_(true)
    local loss = (w * x):sum()
    x:fill_(100)
    loss:backward()
    assert.same({ 1, 2, 3 }, values(w.grad))
  end)
end)

describe("a write", function()
  it("through a view is seen by the tensor and its other views", function()
    local x = ct.zeros(2, 3)
    local row, column = x[1], x[{ {}, 2 }]
    row:fill_(5)
    assert.same({ { 5, 5, 5 }, { 0, 0, 0 } }, values(x))
    assert.same({ 5, 0 }, values(column))
    column:add_(1)
    assert.same({ 5, 6, 5 }, values(row))
  end)

  it("through a transpose is seen untransposed", function()
    local x = ct.zeros(2, 3)
    x:t()[{ 3, 1 }] = 7
    assert.same({ { 0, 0, 7 }, { 0, 0, 0 } }, values(x))
  end)

  it("through a reshaped view is seen, and one to a reshaped copy is not", function()
    local x = ct.zeros(2, 3)
    x:reshape(6):fill_(1)
    assert.same({ { 1, 1, 1 }, { 1, 1, 1 } }, values(x))
    x:t():reshape(6):fill_(2)
    assert.same({ { 1, 1, 1 }, { 1, 1, 1 } }, values(x))
  end)

  it("to a clone is not seen, one to a detached tensor is", function()
    local x = ct.zeros(2)
    x:clone():fill_(1)
    assert.same({ 0, 0 }, values(x))
    x:detach():fill_(3)
    assert.same({ 3, 3 }, values(x))
  end)

  it("of a tensor to overlapping elements of itself reads the old ones", function()
    local x = ct.arange(5):float()
    x[{ { 2, 5 } }] = x[{ { 1, 4 } }]
    assert.same({ 0, 0, 1, 2, 3 }, values(x))
    local y = ct.arange(5):float()
    y[{ { 1, 4 } }] = y[{ { 2, 5 } }]
    assert.same({ 1, 2, 3, 4, 4 }, values(y))
  end)

  it("of the flipped or transposed self reads the old elements", function()
    local x = ct.arange(4):float()
    x:add_(x:flip(1))
    assert.same({ 3, 3, 3, 3 }, values(x))
    local m = ct.tensor { { 1, 2 }, { 3, 4 } }
    m:copy_(m:t())
    assert.same({ { 1, 3 }, { 2, 4 } }, values(m))
  end)

  it("through an expanded view is an error", function()
    local x = ct.ones(1)
    local ok, message = pcall(function() x:expand(3):add_(1) end)
    assert.is_false(ok)
    assert.is_truthy(tostring(message):find("expanded view", 1, true))
    assert.same({ 1 }, values(x))
  end)

  it("broadcasts and casts the value to the tensor's own shape and type", function()
    local x = ct.zeros({ 2, 2 }, "int32")
    x:copy_(ct.tensor { 1.9, -1.9 })
    assert.same({ { 1, -1 }, { 1, -1 } }, values(x))
    assert.equal("int32", x.dtype)
  end)

  it("to a leaf that requires grad needs no_grad", function()
    local w = ct.ones(2):requires_grad_(true)
    assert.has_error(function() w:add_(1) end)
    ct.no_grad(function() w:add_(1) end)
    assert.same({ 2, 2 }, values(w))
    assert.is_true(w.requires_grad)
    assert.is_true(w.is_leaf)
  end)

  it("to a leaf leaves gradients of what read the old version right", function()
    local w = ct.tensor({ 3 }):requires_grad_(true)
    local loss = (w * w):sum()
    ct.no_grad(function() w:fill_(100) end)
    loss:backward()
    assert.same({ 6 }, values(w.grad))
  end)

  it("of a computed value into part of a tensor carries its gradient", function()
    local w = ct.tensor({ 2, 3 }):requires_grad_(true)
    local x = ct.zeros(3)
    x[{ { 2, 3 } }] = w * 5
    (x * ct.tensor { 10, 20, 30 }):sum():backward()
    assert.same({ 100, 150 }, values(w.grad))
  end)

  it("swaps two tensors when both were read before", function()
    local a, b = ct.tensor { 1 }, ct.tensor { 2 }
    local old_a, old_b = a:clone(), b:clone()
    a:copy_(old_b)
    b:copy_(old_a)
    assert.same({ { 2 }, { 1 } }, { values(a), values(b) })
  end)

  it("of one tensor into another leaves them separate", function()
    local a, b = ct.zeros(2), ct.ones(2)
    a:copy_(b)
    b:fill_(9)
    assert.same({ 1, 1 }, values(a))
    a:fill_(4)
    assert.same({ 9, 9 }, values(b))
  end)
end)

describe("the address of a tensor's elements", function()
  it("stays while it is written in place", function()
    local x = ct.zeros(3)
    local before = tostring(x:data())
    x:add_(1)
    x[2] = 7
    x:copy_(x * 2)
    assert.equal(before, tostring(x:data()))
    assert.same({ 2, 14, 2 }, values(x))
  end)

  it("is not shared with a value that read the elements before", function()
    local x = ct.ones(2)
    local y = x:clone()
    local _ = x:data()
    local z = x * 1
    x:fill_(5)
    assert.same({ 1, 1 }, values(y))
    assert.same({ 1, 1 }, values(z))
    assert.same({ 5, 5 }, values(x))
  end)
end)
