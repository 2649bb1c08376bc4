-- backward, ct.grad, ct.no_grad and functions with a gradient of their own.
local ct = require "ctrain"

local function leaf(values, dtype) return ct.tensor(values, { dtype = dtype }):requires_grad_(true) end
local function message_of(fn, ...)
  local ok, message = pcall(fn, ...)
  assert.is_false(ok, "an error was expected")
  return tostring(message)
end
local function has(message, part) assert.is_truthy(message:find(part, 1, true), message) end

describe("backward", function()
  it("gathers in the leaves, and adds to what is there", function()
    local w = leaf { 2, 3 }
    for _ = 1, 2 do
      local loss = (w * w):sum()
      loss:backward()
    end
    assert.same({ 8, 12 }, w.grad:totable())
    w.grad = nil
    assert.is_nil(w.grad)
  end)

  it("adds both paths of a value used twice", function()
    local w = leaf { 3 }
    local loss = (w + w + w * w):sum()
    loss:backward()
    assert.same({ 8 }, w.grad:totable())
  end)

  it("from a tensor that is no scalar needs its gradient", function()
    local w = leaf { 1, 2 }
    has(message_of(function() (w * 2):backward() end), "no scalar")
    local y = w * 2
    y:backward({ gradient = ct.tensor { 10, 100 } })
    assert.same({ 20, 200 }, w.grad:totable())
  end)

  it("a second time through one graph is an error, unless it was retained", function()
    local w = leaf { 3 }
    local loss = (w * w):sum()
    loss:backward({ retain_graph = true })
    loss:backward()
    assert.same({ 12 }, w.grad:totable())
    has(message_of(function() loss:backward() end), "retain_graph")
  end)

  it("where nothing requires grad is an error", function()
    has(message_of(function() ct.ones(1):sum():backward() end), "requires grad")
  end)

  it("leaves other leaves alone", function()
    local used, unused = leaf { 1 }, leaf { 1 }
    local loss = (used * 2):sum()
    loss:backward()
    assert.is_nil(unused.grad)
  end)

  it("reaches a leaf through views and broadcasts", function()
    local w = leaf { { 1, 2, 3 }, { 4, 5, 6 } }
    local loss = (w:t()[{ { 1, 2 } }] * ct.tensor { { 1 }, { 10 } }):sum()
    loss:backward()
    assert.same({ { 1, 10, 0 }, { 1, 10, 0 } }, w.grad:totable())
  end)
end)

describe("ct.grad", function()
  it("gives the gradients and leaves grad alone", function()
    local x, y = leaf { 2 }, leaf { 5 }
    local gradients = ct.grad((x * y):sum(), { x, y })
    assert.same({ { 5 }, { 2 } }, { gradients[1]:totable(), gradients[2]:totable() })
    assert.is_nil(x.grad)
  end)

  it("of a gradient is the second derivative", function()
    local x = leaf({ 3 }, "float64")
    local first = ct.grad((x ^ 3):sum(), { x }, { create_graph = true })[1]
    local second = ct.grad(first:sum(), { x })[1]
    assert.near(27, first:sum():item(), 1e-12)
    assert.near(18, second:sum():item(), 1e-12)
  end)

  it("of an input that has no part in it is an error, unless allowed", function()
    local x, other = leaf { 2 }, leaf { 1 }
    has(message_of(function() return ct.grad((x * 2):sum(), { other }) end), "allow_unused")
    assert.has_no_error(function() return ct.grad((x * 2):sum(), { x, other }, { allow_unused = true }) end)
  end)
end)

describe("no_grad", function()
  it("makes results that require none, and gives back what the function gives", function()
    local w = leaf { 1 }
    local y, more = ct.no_grad(function(a) return w * a, "more" end, 4)
    assert.is_false(y.requires_grad)
    assert.same({ 4 }, y:totable())
    assert.equal("more", more)
    assert.is_true((w * 2).requires_grad)
  end)

  it("ends also when the function fails, with its own error", function()
    local problem = { code = 7 }
    local ok, caught = pcall(ct.no_grad, function() error(problem) end)
    assert.is_false(ok)
    assert.equal(problem, caught)
    assert.is_true(ct.is_grad_enabled())
  end)
end)

describe("detach", function()
  it("cuts the gradient and keeps the elements", function()
    local w = leaf { 3 }
    local loss = (w * w:detach()):sum()
    loss:backward()
    assert.same({ 3 }, w.grad:totable())
    assert.is_false(w:detach().requires_grad)
  end)
end)

describe("requires_grad_", function()
  it("makes a leaf of a reshaped, sliced or detached tensor", function()
    local data = ct.arange(6):float()
    local w = data:reshape(2, 3):requires_grad_(true)
    local row = data[{ { 1, 3 } }]:requires_grad_(true)
    local loss = (w * w):sum() + (row * 2):sum()
    loss:backward()
    assert.same({ { 0, 2, 4 }, { 6, 8, 10 } }, w.grad:totable())
    assert.same({ 2, 2, 2 }, row.grad:totable())
    assert.is_false(data.requires_grad)
    local again = w:detach():requires_grad_(true)
    again:sum():backward()
    assert.same({ { 1, 1, 1 }, { 1, 1, 1 } }, again.grad:totable())
  end)

  it("of a computed tensor is an error that names detach", function()
    local w = leaf { 1 }
    has(message_of(function() (w * 2):requires_grad_(false) end), "detach")
  end)
end)

describe("a custom function", function()
  it("has the gradient it says", function()
    local x = leaf { 1, 2 }
    local y = ct.custom(ct.no_grad(function() return x * 1 end), { x }, function(gradient) return gradient * 7 end)
    local loss = (y * ct.tensor { 1, 10 }):sum()
    loss:backward()
    assert.same({ 7, 70 }, x.grad:totable())
  end)

  it("whose gradient has another shape is an error that names both", function()
    local x = leaf { 1, 2 }
    local y = ct.custom(ct.no_grad(function() return x * 1 end), { x }, function() return ct.ones(3) end)
    local message = message_of(function() y:sum():backward() end)
    has(message, "3")
    has(message, "2")
  end)

  it("whose backward fails passes the error on", function()
    local x = leaf { 1 }
    local y = ct.custom(ct.no_grad(function() return x * 1 end), { x }, function() error "no gradient today" end)
    has(message_of(function() y:sum():backward() end), "no gradient today")
  end)
end)
