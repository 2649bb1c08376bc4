-- Traced steps: what varies between calls is never frozen into the recording, and what fails changes nothing.
-- Each case runs on the eager loops and compiled.
local ct = require "ctrain"

local function line_here() return debug.getinfo(2, "l").currentline end

for _, mode in ipairs {
  { name = "replayed", options = { compile = false } },
  { name = "compiled", options = { wait = true } },
} do
  local function trace(fn) return ct.trace(fn, mode.options) end

  describe("a step " .. mode.name, function()
    it("gives what its body gives, call after call", function()
      local step = trace(function(x) return (x * 2 + 1):sum() end)
      for i = 1, 5 do assert.equal(3 * (2 * i + 1), step(ct.full({ 3 }, i)):item()) end
    end)

    it("takes a shorter batch and the longer one again", function()
      local step = trace(function(x) return x:sum(), x:mean() end)
      local sums = {}
      for _, n in ipairs { 4, 4, 3, 4, 3 } do sums[#sums + 1] = step(ct.ones(n)):item() end
      assert.same({ 4, 4, 3, 4, 3 }, sums)
    end)

    it("reads numbers as arguments", function()
      local step = trace(function(x, factor) return x * factor end)
      assert.same({ 2, 4 }, step(ct.tensor { 1, 2 }, 2):totable())
      assert.same({ 0.5, 1 }, step(ct.tensor { 1, 2 }, 0.5):totable())
    end)

    it("follows a number upvalue that changed", function()
      local factor = 2
      local step = trace(function(x) return x * factor end)
      assert.same({ 2 }, step(ct.ones(1)):totable())
      factor = 3
      assert.same({ 3 }, step(ct.ones(1)):totable())
      factor = 2
      assert.same({ 2 }, step(ct.ones(1)):totable())
    end)

    it("follows a learning rate that changed", function()
      local w = ct.zeros(1):requires_grad_(true)
      local optimizer = ct.optim.SGD({ w }, { lr = 1 })
      local step = trace(function()
        optimizer:zero_grad()
        w:sum():backward()
        optimizer:step()
      end)
      step()
      assert.same({ -1 }, w:totable())
      optimizer.param_groups[1].lr = 10
      step()
      assert.same({ -11 }, w:totable())
    end)

    it("follows a model between train and eval", function()
      local model = ct.nn.Sequential(ct.nn.Dropout(0.5))
      local step = trace(function(x) return model(x) end)
      local x = ct.ones(64)
      assert.is_true(step(x):eq(0):any():item() ~= 0)
      model:eval()
      assert.same(x:totable(), step(x):totable())
      model:train()
      assert.is_true(step(x):eq(0):any():item() ~= 0)
    end)

    it("reads each view it is given at its own place", function()
      local step = trace(function(x) return x + 0 end)
      local x = ct.arange(12):float():reshape(3, 4)
      assert.same({ 0, 1, 2, 3 }, step(x[1]):totable())
      assert.same({ 8, 9, 10, 11 }, step(x[3]):totable())
      local square = ct.arange(4):float():reshape(2, 2)
      assert.same({ { 0, 1 }, { 2, 3 } }, step(square):totable())
      assert.same({ { 0, 2 }, { 1, 3 } }, step(square:t()):totable())
    end)

    it("takes the same tensor twice", function()
      local step = trace(function(x, y) return x * 10 + y end)
      local a, b = ct.ones(1), ct.full({ 1 }, 2)
      assert.same({ 12 }, step(a, b):totable())
      assert.same({ 11 }, step(a, a):totable())
      assert.same({ 21 }, step(b, a):totable())
    end)

    it("gives results that later steps leave alone", function()
      local state = ct.zeros(1)
      local step = trace(function(x)
        state:add_(x)
        return state, state * 10
      end)
      local kept = {}
      for i = 1, 4 do kept[i] = { step(ct.ones(1)) } end
      for i = 1, 4 do assert.same({ { i }, { 10 * i } }, { kept[i][1]:totable(), kept[i][2]:totable() }) end
    end)

    it("swaps two states", function()
      local a, b = ct.tensor { 1 }, ct.tensor { 2 }
      local step = trace(function()
        local old_a, old_b = a:clone(), b:clone()
        a:copy_(old_b)
        b:copy_(old_a)
      end)
      step()
      assert.same({ { 2 }, { 1 } }, { a:totable(), b:totable() })
      step()
      assert.same({ { 1 }, { 2 } }, { a:totable(), b:totable() })
    end)

    it("keeps the old elements for a value computed before a write", function()
      local x = ct.ones(3)
      local step = trace(function()
        local y = x + 10
        x[1] = 9
        return y
      end)
      assert.same({ 11, 11, 11 }, step():totable())
      assert.same({ 19, 11, 11 }, step():totable())
      assert.same({ 9, 1, 1 }, x:totable())
    end)

    it("keeps the address of a state", function()
      local x = ct.ones(3)
      local address = tostring(x:data())
      local step = trace(function() x:mul_(2) end)
      step()
      step()
      assert.equal(address, tostring(x:data()))
      assert.same({ 4, 4, 4 }, x:totable())
    end)

    it("draws anew at each call, the numbers that eager code draws", function()
      local step = trace(function(x) return x + ct.rand(4) end)
      ct.manual_seed(5)
      local traced = { step(ct.zeros(4)):totable(), step(ct.zeros(4)):totable(), step(ct.zeros(4)):totable() }
      ct.manual_seed(5)
      local eager = { ct.rand(4):totable(), ct.rand(4):totable(), ct.rand(4):totable() }
      assert.same(eager, traced)
    end)

    it("that meets a label out of range leaves every state as it was", function()
      local w, count = ct.zeros(2, 3):requires_grad_(true), ct.zeros(1)
      local optimizer = ct.optim.SGD({ w }, { lr = 1, momentum = 0.9 })
      local step = trace(function(labels)
        count:add_(1)
        optimizer:zero_grad()
        ct.nn.functional.cross_entropy(w * 1, labels):backward()
        optimizer:step()
      end)
      local good = ct.tensor({ 0, 2 }, { dtype = "int64" })
      step(good)
      local before = w:totable()
      local ok, message = pcall(step, ct.tensor({ 0, 3 }, { dtype = "int64" }))
      assert.is_false(ok)
      assert.is_truthy(tostring(message):find("3", 1, true))
      assert.same(before, w:totable())
      assert.same({ 1 }, count:totable())
      step(good)
      assert.same({ 2 }, count:totable())
    end)

    it("accumulates gradients where the body never clears them", function()
      local w = ct.ones(2):requires_grad_(true)
      local step = trace(function(x) (w * x):sum():backward() end)
      for _ = 1, 3 do step(ct.full({ 2 }, 2)) end
      assert.same({ 6, 6 }, w.grad:totable())
    end)

    it("runs step closures with the values of each step", function()
      local seen = {}
      local note = ct.step_closure(function(value) seen[#seen + 1] = value:item() end)
      local step = trace(function(x) note(x:sum()) end)
      local loader = ct.utils.data.DataLoader(function()
        return ct.utils.data.Loader(ct.utils.data.TensorDataset(ct.arange(4):float()), { batch_size = 1 })
      end)
      for batch in ct.utils.data.DataExecutor(loader, { num_steps = 4 }) do step(batch[1]) end
      assert.same({ 0, 1, 2, 3 }, seen)
    end)
  end)
end

describe("reading a tensor inside a step", function()
  it("is an error that names the operation, the line and the way out", function()
    local line
    local step = ct.trace(function(x)
      line = line_here() + 1
      return x:sum():item()
    end)
    local ok, message = pcall(step, ct.ones(2))
    assert.is_false(ok)
    for _, part in ipairs { "'sum'", ("trace_spec.lua:%d"):format(line), "step_closure" } do
      assert.is_truthy(tostring(message):find(part, 1, true), message)
    end
  end)
end)

describe("an error in the body", function()
  it("leaves tensors, gradients and random numbers as they were", function()
    local x = ct.ones(2):requires_grad_(true)
    ct.manual_seed(1)
    local step = ct.trace(function()
      local _ = ct.rand(3)
      local loss = (x * 2):sum()
      loss:backward()
      ct.no_grad(function() x:fill_(9) end)
      error "halt"
    end)
    local ok, message = pcall(step)
    assert.is_false(ok)
    assert.is_truthy(tostring(message):find("halt", 1, true))
    assert.same({ 1, 1 }, x:totable())
    assert.is_nil(x.grad)
    assert.is_false(ct.tracing())
    local drawn = ct.rand(2):totable()
    ct.manual_seed(1)
    assert.same(ct.rand(2):totable(), drawn)
  end)
end)

describe("recording again", function()
  it("catches a Lua counter in a table, and names the operation and its line", function()
    local counter = { n = 0 }
    local line = line_here() + 3
    local step = ct.trace(function(x)
      counter.n = counter.n + 1
      return x + counter.n
    end, { compile = false })
    step(ct.ones(1))
    local ok, message = pcall(step, ct.ones(1))
    assert.is_false(ok)
    for _, part in ipairs { "call 2", "const 1", "const 2", ("trace_spec.lua:%d"):format(line) } do
      assert.is_truthy(tostring(message):find(part, 1, true), message)
    end
  end)

  it("catches a branch that flips at call 100 by call 128", function()
    local flag = { on = false }
    local step = ct.trace(function(x) if flag.on then return x:exp() end return x:neg() end, { compile = false })
    local failed
    for call = 1, 128 do
      flag.on = call >= 100
      if not pcall(step, ct.ones(1)) then failed = call break end
    end
    assert.equal(128, failed)
  end)
end)

describe("a tensor made in a step", function()
  it("and kept in Lua cannot be used after it", function()
    local kept
    local step = ct.trace(function(x) kept = x * 2 return kept end)
    step(ct.ones(1))
    local ok, message = pcall(function() return kept + 1 end)
    assert.is_false(ok)
    assert.is_truthy(tostring(message):find("traced step", 1, true), message)
  end)
end)
