-- Element-wise functions of two tensors where the operands lie differently in memory, are expanded, narrow, the same
-- tensor, or at the edges of the number line. Plain values, broadcasting and gradients: elementwise_spec.lua.
local ct = require "ctrain"
local floats = require "spec.support.floats"
local random = require "spec.support.random"
local reference = require "spec.support.reference"
local tensors = require "spec.support.tensors"

local inf, nan = math.huge, 0 / 0

-- name, formula, ranges of x and y, ulps in float32 and float64
local functions = {
  { "add", function(x, y) return x + y end, -9, 9, -9, 9, 0.5, 0.5 },
  { "sub", function(x, y) return x - y end, -9, 9, -9, 9, 0.5, 0.5 },
  { "mul", function(x, y) return x * y end, -9, 9, -9, 9, 0.5, 0.5 },
  { "div", function(x, y) return x / y end, -9, 9, 0.1, 9, 0.5, 0.5 },
  { "pow", function(x, y) return x ^ y end, 0.1, 6, -4, 4, 0.51, 1.2 },
  { "maximum", math.max, -9, 9, -9, 9, 0, 0 },
  { "minimum", math.min, -9, 9, -9, 9, 0, 0 },
}

local function allowed(dtype, single, double)
  if dtype == "float64" then return double > 0.5 and double + 1 or double end
  if dtype == "float32" then return single == 0 and 0 or single + 1e-6 end
  return single == 0 and 0 or 0.501
end

local pairings = {
  { "contiguous", "transposed" }, { "transposed", "contiguous" }, { "transposed", "transposed" },
  { "strided", "narrowed" }, { "flipped", "strided" }, { "narrowed", "flipped" }, { "strided", "strided" },
}

for _, entry in ipairs(functions) do
  local name, formula, xl, xh, yl, yh, single, double = (table.unpack or unpack)(entry) -- luacheck: ignore
  describe(name, function()
    for _, dtype in ipairs(tensors.float_dtypes) do
      it("of " .. dtype .. " is the formula's value however the operands lie in memory", function()
        local generator = random.new(#name + #dtype)
        for _, shape in ipairs { { 7 }, { 3, 5 }, { 67, 3 }, { 2, 1, 3, 1 }, { 2, 0, 3 }, { 33, 17 } } do
          local a = tensors.uniform(generator, shape, xl, xh, dtype)
          local b = tensors.uniform(generator, shape, yl, yh, dtype)
          local expected = reference.zip(a, b, formula)
          for _, layouts in ipairs(pairings) do
            local x, y = tensors.make(a, dtype, layouts[1]), tensors.make(b, dtype, layouts[2])
            local result = x[name](x, y)
            assert.equal(dtype, result.dtype)
            tensors.within_ulps(result, expected, allowed(dtype, single, double), table.concat(layouts, ", "))
          end
        end
      end)
    end

    it("of expanded operands is the value of their copies, bit for bit", function()
      local a = tensors.uniform(random.new(1), { 3, 1 }, xl, xh, "float32")
      local b = tensors.uniform(random.new(2), { 2, 1, 19 }, yl, yh, "float32")
      local x = tensors.expanded(a, { 2, 3, 19 }, "float32")
      local y = tensors.expanded(b, { 2, 3, 19 }, "float32")
      tensors.identical(x[name](x, y), x:clone()[name](x:clone(), y:clone()))
    end)

    it("of a tensor and its own transpose, in place, reads the old elements", function()
      local a = tensors.uniform(random.new(3), { 5, 5 }, math.max(xl, yl, 0.2), math.min(xh, yh))
      local t = tensors.make(a)
      local expected = tensors.make(a)[name](tensors.make(a), tensors.make(a):t():clone())
      t[name .. "_"](t, t:t())
      tensors.identical(t, expected)
    end)

    it("in place through a strided view leaves the elements between alone", function()
      local a = tensors.uniform(random.new(4), { 3, 8 }, xl, xh)
      local b = tensors.uniform(random.new(5), { 1, 4 }, yl, yh)
      local t, y = tensors.make(a), tensors.make(b)
      local view, between = t[{ {}, { 2, 8, 2 } }], t[{ {}, { 1, 7, 2 } }]:clone()
      local expected = view:clone()[name](view:clone(), y)
      view[name .. "_"](view, y)
      tensors.identical(t[{ {}, { 2, 8, 2 } }], expected)
      tensors.identical(t[{ {}, { 1, 7, 2 } }], between)
    end)

    it("of one tensor with itself uses each element twice", function()
      local a = tensors.uniform(random.new(6), { 37 }, math.max(xl, yl, 0.2), math.min(xh, yh))
      local t = tensors.make(a)
      tensors.within_ulps(t[name](t, t), reference.zip(a, a, formula), allowed("float64", single, double))
    end)
  end)
end

-- x, y, value; of one element (a tail) and of nineteen (vectors)
local function check_edges(name, list)
  for _, dtype in ipairs { "float32", "float64" } do
    for _, case in ipairs(list) do
      for _, n in ipairs { 1, 19 } do
        local x = tensors.make(reference.array({ n }, case[1]), dtype)
        local y = tensors.make(reference.array({ n }, case[2]), dtype)
        tensors.equal(x[name](x, y), reference.array({ n }, floats.round(case[3], dtype)),
          ("%s(%g, %g) in %s"):format(name, case[1], case[2], dtype))
      end
    end
  end
end

describe("at the edges of the number line", function()
  it("pow is as in C", function()
    check_edges("pow", {
      { 0, -1, inf }, { -0.0, -1, -inf }, { -0.0, -2, inf }, { 0, 3, 0 }, { -0.0, 3, -0.0 }, { -0.0, 2, 0 },
      { -1, inf, 1 }, { -1, -inf, 1 }, { 1, nan, 1 }, { nan, 0, 1 }, { nan, 1, nan }, { 2, nan, nan },
      { -8, 3, -512 }, { -2, -2, 0.25 }, { -8, 1 / 3, nan }, { 0.5, inf, 0 }, { 0.5, -inf, inf }, { 2, inf, inf },
      { 2, -inf, 0 }, { inf, 2, inf }, { inf, -1, 0 }, { -inf, 3, -inf }, { -inf, 2, inf }, { -inf, -3, -0.0 },
      { 10, 400, inf }, { 10, -400, 0 }, { -10, 401, -inf },
    })
  end)

  it("div has signed infinities and zeros", function()
    check_edges("div", { { 1, 0, inf }, { 1, -0.0, -inf }, { -1, 0, -inf }, { 0, 0, nan }, { inf, inf, nan },
      { 1, -inf, -0.0 }, { 0, -3, -0.0 } })
  end)

  it("remainder has the sign of the divisor, as Lua's %", function()
    check_edges("remainder", { { 5.5, 2, 1.5 }, { -5.5, 2, 0.5 }, { 5.5, -2, -0.5 }, { -5.5, -2, -1.5 }, { 6, 3, 0 },
      { 5, inf, 5 }, { -5, inf, inf }, { 5, -inf, -inf }, { inf, 2, nan }, { 5, 0, nan }, { nan, 2, nan },
      { 2 ^ 100, 3, 1 }, { -2 ^ 100, 3, 2 } })
  end)

  it("floor_divide is the floor of the exact quotient", function()
    check_edges("floor_divide", { { 5.5, 2, 2 }, { -5.5, 2, -3 }, { 5.5, -2, -3 }, { -5.5, -2, 2 }, { 6, 3, 2 },
      { 1, 0, inf }, { -1, 0, -inf }, { 0, 0, nan }, { 5, inf, 0 }, { nan, 2, nan }, { -0.0, 2, -0.0 } })
    -- 1 / 0.1 rounds to 10, but ten times the double 0.1 is more than 1
    assert.same({ 9 }, ct.tensor({ 1 }, { dtype = "float64" }):floor_divide(0.1):totable())
  end)

  it("maximum and minimum give NaN where either side is one", function()
    for _, name in ipairs { "maximum", "minimum" } do
      check_edges(name, { { nan, 1, nan }, { 1, nan, nan }, { nan, inf, nan }, { -inf, nan, nan }, { nan, nan, nan } })
    end
  end)

  it("subnormal numbers are added and multiplied, not flushed", function()
    local tiny = ct.full({ 19 }, 1e-310, "float64")
    tensors.equal(tiny * 1, reference.array({ 19 }, 1e-310))
    tensors.equal(tiny + tiny, reference.array({ 19 }, 2e-310))
    local single = ct.full({ 19 }, 2 ^ -140, "float32")
    tensors.equal(single * 0.5, reference.array({ 19 }, 2 ^ -141))
  end)
end)

describe("a number on the left", function()
  it("of - / % and ^ is the first operand", function()
    local a = reference.array({ 5 }, { 1, 2, 3, 4, 5 })
    local t = tensors.make(a)
    tensors.equal(10 - t, reference.map(a, function(x) return 10 - x end))
    tensors.equal(10 / t, reference.map(a, function(x) return 10 / x end))
    tensors.equal(10 % t, reference.map(a, function(x) return 10 % x end))
    tensors.within_ulps(2 ^ t, reference.map(a, function(x) return 2 ^ x end), 0)
  end)
end)

describe("of integers", function()
  it("division gives float32, floor_divide and remainder the integer type", function()
    local t = ct.tensor({ 7, -7 }, { dtype = "int32" })
    assert.same({ 3.5, -3.5 }, (t / 2):totable())
    assert.equal("float32", (t / 2).dtype)
    assert.same({ 3, -4 }, t:floor_divide(2):totable())
    assert.same({ 1, 1 }, (t % 2):totable())
    assert.equal("int32", (t % 2).dtype)
  end)

  it("floor_divide and remainder by zero are refused, and what stood before stands", function()
    for _, name in ipairs { "floor_divide", "remainder" } do
      local t = ct.tensor({ 7, 8, 9 }, { dtype = "int32" })
      local ok, message = pcall(t[name .. "_"], t, ct.tensor({ 1, 0, 2 }, { dtype = "int32" }))
      assert.is_false(ok)
      assert.is_truthy(message:find("division by zero in int32", 1, true))
      assert.same({ 7, 8, 9 }, t:totable())
    end
  end)

  it("the least integer divided by -1 wraps", function()
    local least = ct.tensor({ -128 }, { dtype = "int8" })
    assert.same({ -128 }, least:floor_divide(-1):totable())
    assert.same({ 0 }, least:remainder(-1):totable())
  end)

  it("multiplication wraps around at the width", function()
    assert.same({ 144 }, (ct.tensor({ 200 }, { dtype = "uint8" }) * 2):totable())
    assert.same({ -2147483648 }, (ct.tensor({ 1073741824 }, { dtype = "int32" }) * 2):totable())
  end)
end)
