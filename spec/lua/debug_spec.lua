-- ct.debug: switches for looking into how steps are run.
local ct = require "ctrain"

local function line_here() return debug.getinfo(2, "l").currentline end

describe("ct.debug.anomaly", function()
  before_each(function() ct.debug.anomaly(true) end)
  after_each(function() ct.debug.anomaly(false) end)

  local function message_of(fn, ...)
    local ok, message = pcall(fn, ...)
    assert.is_false(ok)
    return message
  end

  it("names the operation, the line and the place of the first inf", function()
    local x, line = ct.tensor { { 1, 2 }, { 0, 3 } }, line_here() + 1
    local message = message_of(function() x:log() end)
    assert.truthy(message:find(("debug_spec.lua:%d: "):format(line), 1, true), message)
    local expected = "anomaly: 'log' made -inf of operands without one: float32 2x2 at position 2, 1"
    assert.truthy(message:find(expected, 1, true), message)
  end)

  it("finds a NaN made of an inf, and an overflow of a narrow type", function()
    local infinite = ct.tensor { 1 / 0 }
    assert.truthy(message_of(function() return infinite - infinite end):find("'sub' made nan", 1, true))
    assert.truthy(message_of(function() return ct.tensor({ 1e5 }):half() end):find("'cast' made inf", 1, true))
  end)

  it("passes on what came with the data or as a constant", function()
    local x = ct.tensor { 0 / 0, 1 / 0, 1 }
    local y = x * 2 + 1
    assert.equal(1 / 0, y[2]:item())
    local masked = ct.where(ct.tensor { true, false, true }, -1 / 0, ct.ones(3))
    assert.same({ 0, 1, 0 }, masked:softmax(1):totable())
  end)

  it("names the operation whose gradient it is", function()
    local x = ct.zeros(2):requires_grad_(true)
    local line = line_here() + 1
    local loss = x:sqrt():sum()
    local message = message_of(function() loss:backward() end)
    assert.truthy(message:find("in the gradient of 'sqrt' at ", 1, true), message)
    assert.truthy(message:find(("debug_spec.lua:%d, made inf"):format(line), 1, true), message)
  end)

  it("finds it in a traced step, compiled or not, and leaves the state as it was", function()
    ct.debug.anomaly(false)
    for _, options in ipairs { { compile = false }, { wait = true } } do
      local w, line = ct.ones(2), line_here() + 3
      local step = ct.trace(function(x)
        w:add_(1)
        return x:log() * w
      end, options)
      step(ct.ones(2))
      ct.debug.anomaly(true)
      local message = message_of(step, ct.zeros(2))
      ct.debug.anomaly(false)
      assert.truthy(message:find(("debug_spec.lua:%d: anomaly: 'log' made -inf"):format(line), 1, true), message)
      assert.same({ 2, 2 }, w:totable())
      assert.equal(-1 / 0, step(ct.zeros(2)):totable()[1])
    end
  end)

  it("takes true or false", function()
    assert.error_matches(function() ct.debug.anomaly(1) end, "ct.debug.anomaly: on must be true or false, not 1")
  end)
end)
