-- ct.scalar: a number that changes between the runs of a step.
local ct = require "ctrain"

describe("a scalar", function()
  it("is a 0-d tensor that keeps a Lua number as it is", function()
    local s = ct.scalar(0.1)
    assert.same({}, s.shape)
    assert.equal("float64", s.dtype)
    assert.equal(0.1, s.value)
    assert.equal("int32", ct.scalar(3, "int32").dtype)
    assert.equal(3, ct.scalar(3, { dtype = "int32" }).value)
  end)

  it("takes the type of what it meets", function()
    assert.equal("float16", (ct.ones(2, "float16") * ct.scalar(2)).dtype)
  end)

  for name, options in pairs { replayed = { compile = false }, compiled = { wait = true } } do
    it("is read anew at every run of a step that is " .. name, function()
      local s, count = ct.scalar(2), { recorded = 0 }
      local step = ct.trace(function(x)
        count.recorded = count.recorded + 1
        return x * s
      end, options)
      local seen = {}
      for i, value in ipairs { 2, 5, -1, 7, 1 } do
        if i % 2 == 0 then s.value = value else s:fill_(value) end
        seen[i] = step(ct.ones(1)):item()
      end
      assert.same({ 2, 5, -1, 7, 1 }, seen)
      assert.equal(1, s.value)
      assert.equal(3, count.recorded) -- at calls 1, 2 and 4: the last two only compare
    end)
  end

  it("may be changed by the step", function()
    local s = ct.scalar(0)
    local step = ct.trace(function() s:add_(1) end, { compile = false })
    for _ = 1, 3 do step() end
    assert.equal(3, s.value)
    s.value = 10
    step()
    assert.equal(11, s.value)
  end)

  it("names what is wrong", function()
    assert.error_matches(function() ct.scalar("x") end, "ct.scalar: value must be a number or boolean, not 'x'")
    assert.error_matches(function() return ct.ones(2, 3).value end, "value: a tensor of shape 2x3 is not one number")
    assert.error_matches(function() ct.scalar(1).value = "x" end, "fill_: 'value'")
    assert.error_matches(function() ct.scalar(1).valu = 2 end, "did you mean 'value'")
  end)
end)
