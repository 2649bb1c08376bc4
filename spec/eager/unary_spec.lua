-- Element-wise functions of one tensor against float64 formulas. How far float32 and float64 may lie from the truth is
-- what src/graph/element.h states; half types are computed in float32 and rounded once.
local ct = require "ctrain"
local floats = require "spec.support.floats"
local random = require "spec.support.random"
local reference = require "spec.support.reference"
local tensors = require "spec.support.tensors"

local inf, nan = math.huge, 0 / 0

-- Lua's own functions are off by an ulp or so of float64 themselves, the compositions of reference.lua by two.
local slack = 2

local function sign(x)
  return x > 0 and 1 or x < 0 and -1 or x
end

-- name, formula, range of the operands, ulps in float32 and float64 (0: exactly rounded)
local functions = {
  { "neg", function(x) return -x end, -9, 9, 0, 0 },
  { "abs", math.abs, -9, 9, 0, 0 },
  { "sign", sign, -2, 2, 0, 0 },
  { "sqrt", math.sqrt, 0, 50, 0.5, 0.5 },
  { "rsqrt", function(x) return 1 / math.sqrt(x) end, 0.01, 50, 1.5, 1.5 },
  { "exp", math.exp, -30, 11, 1.1, 1 },
  { "log", math.log, 1e-4, 40, 0.9, 0.8 },
  { "log1p", reference.log1p, -0.99, 10, 1, 0.9 },
  { "expm1", reference.expm1, -8, 11, 1, 1.5 },
  { "sin", math.sin, -20, 20, 1.5, 0.8 },
  { "cos", math.cos, -20, 20, 1.5, 0.9 },
  { "tanh", reference.tanh, -4, 4, 1.4, 2.4 },
  { "sigmoid", reference.sigmoid, -15, 15, 2.4, 2.4 },
  { "erf", reference.erf, -3, 3, 1, 2 },
  { "floor", math.floor, -9, 9, 0, 0 },
  { "ceil", math.ceil, -9, 9, 0, 0 },
  { "round", reference.round, -9, 9, 0, 0 },
  { "trunc", reference.trunc, -9, 9, 0, 0 },
}

local function allowed(dtype, single, double)
  if dtype == "float64" then return double == 0 and 0 or double + slack end
  if dtype == "float32" then return single == 0 and 0 or single + 1e-6 end
  return single == 0 and 0 or 0.501 -- float32's error is far below the last place of a half type
end

for _, entry in ipairs(functions) do
  local name, formula, low, high, single, double = (table.unpack or unpack)(entry) -- luacheck: ignore unpack
  describe(name, function()
    for _, dtype in ipairs(tensors.float_dtypes) do
      it("of " .. dtype .. " is the formula's value in every shape and layout", function()
        local generator = random.new(#name + #dtype)
        tensors.each_layout(function(shape, layout, label)
          local a = tensors.uniform(generator, shape, low, high, dtype)
          local t = tensors.make(a, dtype, layout)
          local result = t[name](t)
          assert.equal(dtype, result.dtype)
          tensors.within_ulps(result, reference.map(a, formula), allowed(dtype, single, double), label)
        end)
      end)
    end

    it("of a tensor longer than a vector and a block is the formula's value", function()
      local a = tensors.uniform(random.new(5), { 4099 }, low, high, "float32")
      local t = tensors.make(a, "float32")
      tensors.within_ulps(t[name](t), reference.map(a, formula), allowed("float32", single, double))
    end)

    it("of expanded elements is the value of their copy, bit for bit", function()
      local a = tensors.uniform(random.new(6), { 3, 1 }, low, high, "float32")
      local t = tensors.expanded(a, { 2, 3, 17 }, "float32")
      tensors.identical(t[name](t), t:clone()[name](t:clone()))
    end)

    it("in place writes through a view into its tensor alone where it reaches", function()
      local a = tensors.uniform(random.new(7), { 4, 6 }, low, high, "float64")
      local t = tensors.make(a)
      local view = t[{ {}, { 2, 6, 2 } }]
      local expected = view:clone()[name](view:clone())
      local rest = t[{ {}, { 1, 5, 2 } }]:clone()
      view[name .. "_"](view)
      tensors.identical(t[{ {}, { 2, 6, 2 } }], expected)
      tensors.identical(t[{ {}, { 1, 5, 2 } }], rest)
    end)
  end)
end

-- What C's Annex F says of the ends of the real line.
local edges = {
  neg = { { 0, -0.0 }, { inf, -inf }, { nan, nan } },
  abs = { { -0.0, 0 }, { -inf, inf }, { nan, nan } },
  sign = { { inf, 1 }, { -inf, -1 }, { nan, nan }, { 0, 0 }, { -0.0, -0.0 }, { 2 ^ -149, 1 } },
  sqrt = { { -0.0, -0.0 }, { inf, inf }, { -1, nan }, { nan, nan } },
  rsqrt = { { 0, inf }, { inf, 0 }, { -1, nan }, { nan, nan } },
  exp = { { 0, 1 }, { -0.0, 1 }, { -inf, 0 }, { inf, inf }, { 1e4, inf }, { -1e4, 0 }, { nan, nan } },
  log = { { 1, 0 }, { 0, -inf }, { -0.0, -inf }, { -1, nan }, { inf, inf }, { nan, nan } },
  log1p = { { 0, 0 }, { -0.0, -0.0 }, { -1, -inf }, { -2, nan }, { inf, inf }, { nan, nan }, { 1e-300, 1e-300 } },
  expm1 = { { 0, 0 }, { -0.0, -0.0 }, { -inf, -1 }, { inf, inf }, { nan, nan }, { 1e-300, 1e-300 } },
  sin = { { 0, 0 }, { -0.0, -0.0 }, { inf, nan }, { -inf, nan }, { nan, nan } },
  cos = { { 0, 1 }, { -0.0, 1 }, { inf, nan }, { -inf, nan }, { nan, nan } },
  tanh = { { 0, 0 }, { -0.0, -0.0 }, { inf, 1 }, { -inf, -1 }, { 400, 1 }, { -400, -1 }, { nan, nan } },
  sigmoid = { { 0, 0.5 }, { inf, 1 }, { -inf, 0 }, { 800, 1 }, { -800, 0 }, { nan, nan } },
  erf = { { 0, 0 }, { -0.0, -0.0 }, { inf, 1 }, { -inf, -1 }, { 7, 1 }, { nan, nan } },
  floor = { { -0.0, -0.0 }, { -inf, -inf }, { nan, nan }, { -0.5, -1 } },
  ceil = { { -0.0, -0.0 }, { inf, inf }, { nan, nan }, { -0.5, -0.0 } },
  round = { { -0.0, -0.0 }, { inf, inf }, { nan, nan }, { 0.5, 0 }, { 1.5, 2 }, { 2.5, 2 }, { -0.5, -0.0 } },
  trunc = { { -0.0, -0.0 }, { -inf, -inf }, { nan, nan }, { -0.5, -0.0 }, { 1.75, 1 } },
}

describe("at the edges of the number line", function()
  for _, entry in ipairs(functions) do
    local name = entry[1]
    for _, dtype in ipairs { "float32", "float64" } do
      it(name .. " of " .. dtype .. " is as in C", function()
        for _, pair in ipairs(edges[name]) do
          local x, y = floats.round(pair[1], dtype), floats.round(pair[2], dtype)
          -- one element takes the path of tails, nineteen that of vectors
          for _, n in ipairs { 1, 19 } do
            local t = tensors.make(reference.array({ n }, x), dtype)
            tensors.equal(t[name](t), reference.array({ n }, y), name .. " of " .. x)
          end
        end
      end)
    end
  end

  it("sin and cos of huge numbers are reduced by all of pi", function()
    local a = reference.array({ 4 }, { 1e22, -1e22, 2 ^ 1000, 355e10 })
    tensors.within_ulps(tensors.make(a):sin(), reference.map(a, math.sin), 2.5)
    tensors.within_ulps(tensors.make(a):cos(), reference.map(a, math.cos), 2.5)
  end)

  it("exp keeps subnormal results of float32", function()
    local a = reference.array({ 3 }, { -90, -100, -103 })
    tensors.within_ulps(tensors.make(a, "float32"):exp(), reference.map(a, math.exp), 1.1)
  end)
end)

describe("of integers", function()
  for _, dtype in ipairs(tensors.integer_dtypes) do
    it("floor, ceil, round and trunc of " .. dtype .. " are the numbers themselves", function()
      local a = tensors.integers(random.new(3), { 5, 7 }, dtype == "uint8" and 0 or -100, 100)
      local t = tensors.make(a, dtype, "transposed")
      for _, name in ipairs { "floor", "ceil", "round", "trunc" } do
        local result = t[name](t)
        assert.equal(dtype, result.dtype)
        tensors.equal(result, a, name)
      end
    end)

    it("abs, sign and bitwise_not of " .. dtype .. " are the formula's values", function()
      local unsigned = dtype == "uint8"
      tensors.each_layout(function(shape, layout, label)
        local a = tensors.integers(random.new(4), shape, unsigned and 0 or -100, 100)
        local t = tensors.make(a, dtype, layout)
        tensors.equal(t:abs(), reference.map(a, math.abs), label)
        tensors.equal(t:sign(), reference.map(a, sign), label)
        tensors.equal(t:bitwise_not(), reference.map(a, function(x)
          return unsigned and 255 - x or -1 - x
        end), label)
      end)
    end)
  end

  it("the least integer wraps to itself under neg and abs", function()
    local least = reference.array({ 1 }, -128)
    tensors.equal(tensors.make(least, "int8"):neg(), least)
    tensors.equal(tensors.make(least, "int8"):abs(), least)
  end)

  it("a function of floats gives float32", function()
    local result = ct.tensor({ 1, 4 }, { dtype = "int32" }):sqrt()
    assert.equal("float32", result.dtype)
    assert.same({ 1, 2 }, result:totable())
  end)

  it("in place a function of floats is refused and changes nothing", function()
    local t = ct.tensor({ 1, 4 }, { dtype = "int32" })
    local ok, message = pcall(t.sqrt_, t)
    assert.is_false(ok)
    assert.is_truthy(message:find("sqrt_: the result is float32", 1, true))
    assert.same({ 1, 4 }, t:totable())
  end)

  it("bitwise_not of bool is the logical one", function()
    assert.same({ false, true }, ct.tensor({ true, false }):bitwise_not():totable())
  end)

  it("logical_not is true for zeros of every dtype", function()
    for _, dtype in ipairs(tensors.dtypes) do
      local result = tensors.make(reference.array({ 3 }, { 0, 1, 0 }), dtype):logical_not()
      assert.equal("bool", result.dtype)
      assert.same({ true, false, true }, result:totable())
    end
  end)

  it("logical_not is false for a NaN", function()
    assert.same({ false }, ct.tensor({ nan }):logical_not():totable())
  end)

  it("neg of bool and bitwise_not of floats are refused by name", function()
    local ok, message = pcall(function() return ct.tensor({ true }):neg() end)
    assert.is_false(ok)
    assert.is_truthy(message:find("neg: bool operands", 1, true))
    ok, message = pcall(function() return ct.tensor({ 1.5 }):bitwise_not() end)
    assert.is_false(ok)
    assert.is_truthy(message:find("bitwise_not: float32 operands", 1, true))
  end)
end)
