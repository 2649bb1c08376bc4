-- Tensors made like another.
local ct = require "ctrain"

describe("randint_like", function()
  it("takes shape and type from the tensor, and the range as given", function()
    local t = ct.randint_like(ct.zeros({ 50, 20 }, "int16"), -1, 2)
    assert.same({ 50, 20 }, t.shape)
    assert.equal("int16", t.dtype)
    assert.same({ -1, 1 }, { t:min():item(), t:max():item() })
  end)
end)

describe("type_as", function()
  it("converts to the type of another tensor", function()
    assert.same({ 1, -1 }, ct.tensor({ 1.9, -1.9 }):type_as(ct.zeros({ 1 }, "int64")):totable())
  end)

  it("refuses what is no tensor", function()
    local ok, message = pcall(function() return ct.ones(1):type_as("int64") end)
    assert.is_false(ok)
    assert.truthy(tostring(message):find("type_as", 1, true))
  end)
end)
