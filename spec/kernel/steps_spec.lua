-- What a compiled step promises beyond the values of one run.
local ct = require "ctrain"
local core = require "ctrain.core"
local programs = require "spec.support.programs"

-- The body as a compiled step: a function of tensors that gives its results.
local function compiled(body, ...)
  local trace = programs.record({ inputs = { ... }, body = function(given)
    local results = { body(given[1], given[2], given[3]) }
    return results
  end })
  assert(trace:compile({ wait = true }))
  assert.is_table(trace:news())
  return function(...)
    local results = trace:run({ ... })
    return results[1], results[2], results[3]
  end
end

describe("a compiled step", function()
  it("swaps two parameters (BUGS 1)", function()
    local a, b = ct.tensor({ 1, 2, 3 }), ct.tensor({ 4, 5, 6 })
    local step = compiled(function()
      local old = a * 1
      a:copy_(b)
      b:copy_(old)
    end)
    step()
    assert.same({ 4, 5, 6 }, a:totable())
    assert.same({ 1, 2, 3 }, b:totable())
    step()
    assert.same({ 1, 2, 3 }, a:totable())
  end)

  it("keeps what was computed before a write (BUGS 1)", function()
    local x = ct.tensor({ 1, 2, 3 })
    local step = compiled(function()
      local y = x + 10
      x:narrow(1, 1, 1):fill_(9)
      return y, x * 1
    end)
    local y, z = step()
    assert.same({ 11, 12, 13 }, y:totable())
    assert.same({ 9, 2, 3 }, z:totable())
    assert.same({ 9, 2, 3 }, x:totable())
  end)

  it("moves a tensor's elements within itself (BUGS 2)", function()
    local x = ct.tensor({ 1, 2, 3, 4, 5 })
    local step = compiled(function() x:narrow(1, 2, 4):copy_(x:narrow(1, 1, 4)) end)
    step()
    assert.same({ 1, 1, 2, 3, 4 }, x:totable())
    local y = ct.tensor({ 1, 2, 3 })
    compiled(function() y:add_(y:flip(1)) end)()
    assert.same({ 4, 4, 4 }, y:totable())
  end)

  it("reads an argument that is also its state (BUGS 2)", function()
    local x = ct.tensor({ 1, 2, 3, 4 })
    local step = compiled(function(given)
      x:mul_(2)
      return given:flip(1) + 0
    end, ct.zeros(4))
    assert.same({ 4, 3, 2, 1 }, step(x):totable())
    assert.same({ 2, 4, 6, 8 }, x:totable())
  end)

  it("leaves its earlier results as they were (BUGS 3)", function()
    local n = ct.zeros(2)
    local step = compiled(function()
      n:add_(1)
      return n * 1
    end)
    local first = step()
    local second = step()
    assert.same({ 1, 1 }, first:totable())
    assert.same({ 2, 2 }, second:totable())
  end)

  it("changes no state when an index is out of range", function()
    local w, count = ct.ones(4, 2), ct.zeros(1)
    local step = compiled(function(index)
      count:add_(1)
      local rows = w:index_select(1, index)
      w:sub_(rows:sum())
      return rows
    end, ct.tensor({ 0, 1 }, { dtype = "int64" }))
    local ok, message = pcall(step, ct.tensor({ 0, 4 }, { dtype = "int64" }))
    assert.is_false(ok)
    assert.matches("4", tostring(message))
    assert.same({ 0 }, count:totable())
    assert.equal(8, w:sum():item())
    step(ct.tensor({ 3, 1 }, { dtype = "int64" }))
    assert.same({ 1 }, count:totable())
    assert.equal(8 - 4 * 8, w:sum():item())
  end)

  it("takes arguments that are views", function()
    local step = compiled(function(x) return x:sum(1), x * 2 end, ct.zeros(3, 2))
    local x = ct.arange(6):to("float32"):reshape(2, 3):t()
    local sums, twice = step(x)
    assert.same({ 3, 12 }, sums:totable())
    assert.same({ { 0, 6 }, { 2, 8 }, { 4, 10 } }, twice:totable())
  end)

  it("draws other numbers at each run, and those of the eager loops (BUGS 11)", function()
    local body = function() return ct.rand(5) + ct.rand(5) end
    local step = compiled(body)
    ct.manual_seed(3)
    local first, second = step(), step()
    ct.manual_seed(3)
    assert.same(body():totable(), first:totable())
    assert.same(body():totable(), second:totable())
    assert.not_same(first:totable(), second:totable())
  end)

  it("has exact constants, NaN and infinities too (BUGS 15)", function()
    local step = compiled(function(x)
      return x * 0.1 + 1e-45, x * math.huge, x * (0 / 0)
    end, ct.ones(3))
    local a, b, c = step(ct.ones(3))
    assert.equal((ct.ones(3) * 0.1 + 1e-45):totable()[1], a:totable()[1])
    assert.equal(math.huge, b:totable()[2])
    assert.is_true(c:totable()[3] ~= c:totable()[3])
  end)

  it("leaves the floating-point environment as it was (BUGS 16)", function()
    compiled(function(x) return x + 1 end, ct.ones(3))(ct.ones(3))
    local tiny = 1e-310
    assert.is_true(tiny * 1 > 0)
    assert.is_true((ct.full({ 1 }, 1e-310, "float64") * 1):item() > 0)
  end)

  it("sums 2^25 ones exactly, whatever shape they have (BUGS 4)", function()
    local step = compiled(function(x)
      local ones = x:expand(8192, 4096)
      return ones:sum(), ones:sum(2):sum(), ones:sum(1):sum()
    end, ct.ones(1, 1))
    local a, b, c = step(ct.ones(1, 1))
    assert.equal(33554432, a:item())
    assert.equal(33554432, b:item())
    assert.equal(33554432, c:item())
  end)

  it("leaves gradients as the eager replay does", function()
    local w = ct.tensor({ 1, 2, 3 }, { requires_grad = true })
    local trace = programs.record({ inputs = { ct.ones(3) }, body = function(given)
      local loss = (w * given[1]):pow(2):sum()
      loss:backward()
      return { loss }
    end })
    assert(trace:compile({ wait = true }))
    assert.equal(14, trace:run({ ct.ones(3) })[1]:item())
    assert.same({ 2, 4, 6 }, w.grad:totable())
    w.grad = nil
    assert.is_false(core.tracing())
  end)
end)
