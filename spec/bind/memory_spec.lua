-- The collector sees little of a tensor: native memory must stay flat all the same.
local ct = require "ctrain"

local function resident_mb()
  local file = assert(io.open("/proc/self/statm"))
  local _, pages = file:read("*n", "*n")
  file:close()
  return pages * 4096 / 1e6
end

describe("memory", function()
  it("stays under 100 MB over a million small temporaries #unsanitized", function()
    local x = ct.ones(4)
    local y = x
    local before = resident_mb()
    for _ = 1, 1000000 do y = x + 1 end
    assert.same({ 2, 2, 2, 2 }, y:totable())
    assert.is_true(resident_mb() - before < 100)
  end)

  it("stays flat over temporaries of a megabyte #unsanitized", function()
    local x = ct.ones(262144)
    local before = resident_mb()
    local total = 0
    for _ = 1, 2000 do total = total + (x + 1)[1]:item() end
    assert.equal(4000, total)
    assert.is_true(resident_mb() - before < 200)
  end)

  it("stays flat over steps that build and free a graph #unsanitized", function()
    local w = ct.ones(64, 64):requires_grad_(true)
    local x = ct.ones(64, 64)
    local function step()
      w.grad = nil
      x:matmul(w):tanh():sum():backward()
    end
    for _ = 1, 100 do step() end
    collectgarbage()
    local before = resident_mb()
    for _ = 1, 3000 do step() end
    assert.is_true(resident_mb() - before < 60)
  end)

  it("is given back when the last reference goes", function()
    collectgarbage()
    collectgarbage()
    local before = ct.live_bytes()
    local t = ct.ones(1000000) + 1
    assert.is_true(ct.live_bytes() - before >= 4000000)
    assert.equal(2, t[1]:item())
    t = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.is_true(ct.live_bytes() - before < 100000)
  end)

  it("is not taken by tensors that were only declared", function()
    local before = ct.live_bytes()
    local declared = { ct.zeros(100000, 10000), ct.randn(100000, 10000), ct.full({ 100000, 10000 }, 3) }
    assert.equal(3, #declared)
    assert.is_true(ct.live_bytes() - before < 1000000)
  end)

  it("of a chain of 200,000 operations is freed without overflowing the stack", function()
    local w = ct.ones(1):requires_grad_(true)
    local y = w
    for _ = 1, 200000 do y = y + 0 end
    y:sum():backward()
    assert.same({ 1 }, w.grad:totable())
    y = w
    for _ = 1, 200000 do y = y + 0 end
    y = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.same({ 1 }, w:totable())
  end)
end)
