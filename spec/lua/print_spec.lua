-- Printing: aligned columns, a footer, a common notation where magnitudes differ, long tensors elided.
local ct = require "ctrain"

local function lines_of(t)
  local list = {}
  for line in (tostring(t) .. "\n"):gmatch("(.-)\n") do list[#list + 1] = line end
  return list
end

describe("a printed tensor", function()
  it("has a row a line, of equal length, and a footer with dtype and shape", function()
    local lines = lines_of(ct.tensor { { 1, 2.5, -3 }, { 400, 5, 6 } })
    assert.equal(3, #lines)
    assert.equal(#lines[1], #lines[2])
    assert.is_truthy(lines[1]:find("2.5", 1, true))
    assert.equal("[float32 2x3]", lines[3])
  end)

  it("shows whole numbers without a fraction", function()
    assert.is_nil(lines_of(ct.tensor { 1, 20, 300 })[1]:find(".", 1, true))
  end)

  it("shows 0-d and empty tensors by their footers", function()
    local lines = lines_of(ct.tensor(3.25))
    assert.is_truthy(lines[1]:find("3.25", 1, true))
    assert.equal("[float32 scalar]", lines[#lines])
    assert.is_truthy(tostring(ct.zeros(0, 3)):find("[float32 0x3]", 1, true))
  end)

  it("shows nan, infinities, booleans and int64 as such", function()
    local text = tostring(ct.tensor { 0 / 0, 1 / 0, -1 / 0 })
    assert.is_truthy(text:find("nan", 1, true) and text:find("%f[%w-]inf") and text:find("-inf", 1, true), text)
    text = tostring(ct.tensor({ true, false }, { dtype = "bool" }))
    assert.is_truthy(text:find("true", 1, true) and text:find("false", 1, true), text)
    local big = ct.tensor({ 1 }, { dtype = "int64" }):bitwise_left_shift(ct.tensor({ 62 }, { dtype = "int64" }))
    assert.is_truthy(tostring(big):find("4611686018427387904", 1, true))
  end)

  it("keeps digits of numbers far apart in size", function()
    local text = tostring(ct.tensor { 1e-8, 1, 1e8 })
    assert.is_truthy(text:find("e", 1, true), text)
    for _, x in ipairs { 1e-8, 1e8 } do
      local found = false
      for word in text:gmatch("%S+") do found = found or tonumber(word) == x end
      assert.is_true(found, text)
    end
  end)

  it("elides what is long, and says how large it is", function()
    local text = tostring(ct.arange(100000))
    assert.is_true(#text < 4000)
    assert.is_truthy(text:find("...", 1, true))
    assert.is_truthy(text:find("100000]", 1, true))
    text = tostring(ct.zeros(500, 500))
    assert.is_true(#text < 8000)
  end)

  it("shows the values of a tensor that had not been computed yet", function()
    assert.is_truthy(tostring(ct.full({ 2 }, 7)):find("7", 1, true))
    assert.is_truthy(tostring(ct.ones(2, 2)):find("[float32 2x2]", 1, true))
  end)

  it("of a view shows the view's elements", function()
    local t = ct.arange(6):reshape(2, 3):t()
    local lines = lines_of(t)
    assert.equal(4, #lines)
    assert.is_truthy(lines[1]:match("0%s+3"))
  end)
end)
