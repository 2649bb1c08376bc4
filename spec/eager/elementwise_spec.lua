-- Every element-wise operation against its formula in float64, over shapes, layouts and dtypes, and its gradient
-- against central differences.
local ct = require "ctrain"
local floats = require "spec.support.floats"
local gradient = require "spec.support.gradient"
local random = require "spec.support.random"
local reference = require "spec.support.reference"
local tensors = require "spec.support.tensors"

local huge, nan = math.huge, 0 / 0

local function sign(x) return x > 0 and 1 or (x < 0 and -1 or x) end

-- name, formula, domain; `ulps` allowed in float32 and float64 against the formula (0: exact); `grad`: has a gradient.
local unary = {
  { "neg", function(x) return -x end, -3, 3, 0 },
  { "abs", math.abs, -3, 3, 0 },
  { "sign", sign, -3, 3, 0, flat = true },
  { "sqrt", math.sqrt, 0.1, 9, 0.5000001 },
  { "rsqrt", function(x) return 1 / math.sqrt(x) end, 0.1, 9, 2 },
  { "exp", math.exp, -10, 10, 2 },
  { "log", math.log, 0.01, 20, 2 },
  { "log1p", reference.log1p, -0.9, 9, 2 },
  { "expm1", reference.expm1, -4, 4, 2.5 },
  { "sin", math.sin, -12, 12, 2 },
  { "cos", math.cos, -12, 12, 2 },
  { "tanh", reference.tanh, -5, 5, 3 },
  { "sigmoid", reference.sigmoid, -8, 8, 3 },
  { "erf", reference.erf, -3.5, 3.5, 3 },
  { "floor", math.floor, -3, 3, 0, flat = true },
  { "ceil", math.ceil, -3, 3, 0, flat = true },
  { "round", reference.round, -3, 3, 0, flat = true },
  { "trunc", reference.trunc, -3, 3, 0, flat = true },
  { "reciprocal", function(x) return 1 / x end, 0.2, 4, 0.5000001 },
  { "square", function(x) return x * x end, -3, 3, 0.5000001 },
  { "relu", function(x) return math.max(x, 0) end, -3, 3, 0 },
}

describe("the element-wise function", function()
  for _, op in ipairs(unary) do
    local name, formula, low, high, ulps = op[1], op[2], op[3], op[4], op[5]

    describe(name, function()
      it("follows its formula over shapes and layouts in float64 and float32", function()
        local generator = random.new(11)
        for _, dtype in ipairs { "float64", "float32" } do
          tensors.each_layout(function(shape, layout, label)
            local a = tensors.uniform(generator, shape, low, high, dtype)
            local out = tensors.make(a, dtype, layout)[name](tensors.make(a, dtype, layout))
            assert.equal(dtype, out.dtype)
            -- the reference itself is a rounded float64: one more unit there
            tensors.within_ulps(out, reference.map(a, formula), dtype == "float64" and ulps > 0 and ulps + 2 or ulps,
              dtype .. " " .. label)
          end)
        end
      end)

      it("is the float32 result rounded once in float16 and bfloat16", function()
        local generator = random.new(12)
        for _, dtype in ipairs { "float16", "bfloat16" } do
          for _, shape in ipairs { {}, { 7 }, { 3, 5 }, { 67 } } do
            local a = tensors.uniform(generator, shape, low, high, dtype)
            local out = tensors.make(a, dtype)[name](tensors.make(a, dtype))
            assert.equal(dtype, out.dtype)
            tensors.within_ulps(out, reference.map(a, formula), 0.51, dtype)
          end
        end
      end)

      it("has the same bits with and without strides, in vectors and in their tails", function()
        local a = tensors.uniform(random.new(13), { 131 }, low, high, "float32")
        local whole = tensors.make(a, "float32")
        local at_once = whole[name](whole)
        for _, n in ipairs { 1, 3, 17, 64, 130 } do
          tensors.identical(whole:narrow(1, 1, n)[name](whole:narrow(1, 1, n)), at_once:narrow(1, 1, n))
          local strided = tensors.make(a, "float32", "strided"):narrow(1, 1, n)
          tensors.identical(strided[name](strided), at_once:narrow(1, 1, n))
        end
      end)

      it("writes in place what it gives out of place", function()
        local a = tensors.uniform(random.new(14), { 5, 7 }, low, high, "float32")
        for _, layout in ipairs(tensors.layouts) do
          local t = tensors.make(a, "float32", layout)
          local expected = t[name](t)
          local same = t[name .. "_"](t)
          assert.equal(t, same)
          tensors.identical(t, expected, layout)
        end
      end)

      it("has the gradient that differences give", function()
        local generator = random.new(15)
        for _, shape in ipairs { {}, { 1 }, { 5 }, { 2, 3 }, { 2, 0, 3 } } do
          for _, layout in ipairs { "contiguous", "transposed" } do
            local a = tensors.uniform(generator, shape, low, high)
            for i = 1, #a do -- away from kinks
              local near = a[i] - math.floor(a[i])
              if near < 0.1 then a[i] = a[i] + 0.15 elseif near > 0.9 then a[i] = a[i] - 0.15 end
            end
            gradient.check(function(x) return x[name](x) end, { a }, { layout = layout })
          end
        end
      end)
    end)
  end
end)

describe("special values", function()
  local cases = {
    exp = { { -huge, 0 }, { huge, huge }, { nan, nan }, { 0, 1 }, { -0.0, 1 }, { 1000, huge }, { -1000, 0 } },
    log = { { 0, -huge }, { -0.0, -huge }, { -1, nan }, { huge, huge }, { 1, 0 }, { nan, nan } },
    log1p = { { 0, 0 }, { -0.0, -0.0 }, { -1, -huge }, { -2, nan }, { huge, huge }, { nan, nan } },
    expm1 = { { 0, 0 }, { -0.0, -0.0 }, { huge, huge }, { -huge, -1 }, { nan, nan } },
    sqrt = { { 0, 0 }, { -0.0, -0.0 }, { -1, nan }, { huge, huge }, { nan, nan } },
    tanh = { { huge, 1 }, { -huge, -1 }, { 0, 0 }, { -0.0, -0.0 }, { nan, nan }, { 100, 1 }, { -100, -1 } },
    sigmoid = { { huge, 1 }, { -huge, 0 }, { 0, 0.5 }, { nan, nan } },
    erf = { { huge, 1 }, { -huge, -1 }, { 0, 0 }, { nan, nan } },
    sin = { { 0, 0 }, { -0.0, -0.0 }, { huge, nan }, { nan, nan } },
    cos = { { 0, 1 }, { huge, nan }, { nan, nan } },
    abs = { { -0.0, 0 }, { -huge, huge }, { nan, nan } },
    floor = { { -0.5, -1 }, { huge, huge }, { nan, nan }, { 2 ^ 60, 2 ^ 60 } },
    round = { { 0.5, 0 }, { 1.5, 2 }, { 2.5, 2 }, { -0.5, -0.0 }, { -1.5, -2 }, { nan, nan }, { huge, huge } },
    relu = { { nan, nan }, { huge, huge }, { -huge, 0 } },
  }
  for name, list in pairs(cases) do
    it(("of %s come out as IEEE has them, in vectors and alone"):format(name), function()
      for _, dtype in ipairs { "float64", "float32" } do
        for _, case in ipairs(list) do
          local wide = ct.full({ 37 }, case[1], dtype)
          local expected = reference.array({ 37 }, case[2])
          tensors.equal(wide[name](wide), expected, ("%s(%g) %s"):format(name, case[1], dtype))
          local single = ct.tensor(case[1], { dtype = dtype })
          tensors.equal(single[name](single), reference.array({}, case[2]), ("%s(%g) %s"):format(name, case[1], dtype))
        end
      end
    end)
  end
end)

local function floor_divide(x, y) return math.floor(x / y) end
local function remainder(x, y) return x - math.floor(x / y) * y end

-- name, formula, ranges of x and y, ulps
local binary = {
  { "add", function(x, y) return x + y end, -3, 3, -3, 3, 0.5000001 },
  { "sub", function(x, y) return x - y end, -3, 3, -3, 3, 0.5000001 },
  { "mul", function(x, y) return x * y end, -3, 3, -3, 3, 0.5000001 },
  { "div", function(x, y) return x / y end, -3, 3, 0.3, 3, 0.5000001 },
  { "pow", function(x, y) return x ^ y end, 0.2, 4, -3, 3, 2 },
  { "maximum", math.max, -3, 3, -3, 3, 0 },
  { "minimum", math.min, -3, 3, -3, 3, 0 },
  { "floor_divide", floor_divide, -7, 7, 0.7, 2, 0, flat = true },
  { "remainder", remainder, -3, 3, 0.7, 2, false },
}

describe("the element-wise operation", function()
  for _, op in ipairs(binary) do
    local name, formula, xl, xh, yl, yh, ulps = op[1], op[2], op[3], op[4], op[5], op[6], op[7]

    describe(name, function()
      it("follows its formula over shapes and layouts in float64 and float32", function()
        local generator = random.new(21)
        for _, dtype in ipairs { "float64", "float32" } do
          tensors.each_layout(function(shape, layout, label)
            local a = tensors.uniform(generator, shape, xl, xh, dtype)
            local b = tensors.uniform(generator, shape, yl, yh, dtype)
            local x, y = tensors.make(a, dtype, layout), tensors.make(b, dtype)
            local expected = reference.zip(a, b, formula)
            if ulps then
              tensors.within_ulps(x[name](x, y), expected, dtype == "float64" and ulps >= 1 and ulps + 2 or ulps,
                dtype .. " " .. label)
            else
              tensors.close(x[name](x, y), expected, 0, dtype == "float64" and 1e-14 or 1e-6, dtype .. " " .. label)
            end
          end)
        end
      end)

      it("broadcasts leading and size-1 dimensions both ways", function()
        local generator = random.new(22)
        local pairs_of_shapes = {
          { {}, { 3 } }, { { 3 }, {} }, { { 1 }, { 5 } }, { { 4, 1 }, { 1, 3 } }, { { 3 }, { 2, 1, 3 } },
          { { 2, 3, 4 }, { 3, 1 } }, { { 0 }, { 1 } }, { { 0, 3 }, { 3 } }, { { 1, 3 }, { 0, 1 } }, { {}, {} },
        }
        for _, both in ipairs(pairs_of_shapes) do
          local a = tensors.uniform(generator, both[1], xl, xh)
          local b = tensors.uniform(generator, both[2], yl, yh)
          local x, y = tensors.make(a), tensors.make(b)
          tensors.close(x[name](x, y), reference.zip(a, b, formula), 1e-14, 1e-14)
        end
      end)

      it("has the gradients that differences give, summed over what was broadcast", function()
        if op.flat then
          local x = ct.tensor({ 3.3, 4.4 }, { dtype = "float64" }):requires_grad_(true)
          x[name](x, 0.9):sum():backward()
          assert.same({ 0, 0 }, x.grad:totable())
          return
        end
        local generator = random.new(23)
        for _, both in ipairs { { {}, {} }, { { 3 }, { 3 } }, { { 2, 1 }, { 3 } }, { {}, { 2, 2 } },
          { { 1, 3 }, { 2, 1 } }, { { 0, 3 }, { 3 } } } do
          local a = tensors.uniform(generator, both[1], xl, xh)
          local b = tensors.uniform(generator, both[2], yl, yh)
          gradient.check(function(x, y) return x[name](x, y) end, { a, b }, { tolerance = 1e-6 })
        end
      end)

      it("takes a number on the right as a tensor of that value", function()
        local a = tensors.uniform(random.new(24), { 3, 5 }, xl, xh)
        local x = tensors.make(a)
        tensors.close(x[name](x, 1.25), reference.map(a, function(v) return formula(v, 1.25) end), 1e-14, 1e-14)
      end)
    end)
  end

  it("add wraps around in integers", function()
    for dtype, bits in pairs { int8 = 8, int16 = 16, int32 = 32 } do
      local top = 2 ^ (bits - 1) - 1
      local t = ct.full({ 40 }, top, dtype)
      tensors.equal(t + ct.ones({ 40 }, dtype), reference.array({ 40 }, -top - 1), dtype)
    end
    tensors.equal(ct.full({ 3 }, 250, "uint8") + ct.full({ 3 }, 10, "uint8"), reference.array({ 3 }, 4))
  end)
end)

describe("integer operations", function()
  local operations = {
    add = function(x, y) return x + y end,
    sub = function(x, y) return x - y end,
    mul = function(x, y) return x * y end,
    maximum = math.max,
    minimum = math.min,
    floor_divide = function(x, y) return math.floor(x / y) end,
    remainder = function(x, y) return x % y end,
  }
  for name, formula in pairs(operations) do
    it(("%s agrees with Lua's own in every integer dtype"):format(name), function()
      local generator = random.new(31)
      for _, dtype in ipairs(tensors.integer_dtypes) do
        local low = dtype == "uint8" and 0 or -11
        for _, shape in ipairs { {}, { 0 }, { 1 }, { 67 }, { 3, 5 } } do
          for _, layout in ipairs { "contiguous", "transposed", "strided" } do
            local a = tensors.integers(generator, shape, low, 11)
            local b = tensors.integers(generator, shape, low, 11)
            for i = 1, #b do
              if b[i] == 0 then b[i] = 5 end
              if dtype == "uint8" and name == "sub" then b[i] = math.min(a[i], b[i]) end
            end
            local x, y = tensors.make(a, dtype, layout), tensors.make(b, dtype)
            local out = x[name](x, y)
            assert.equal(dtype, out.dtype)
            tensors.equal(out, reference.zip(a, b, formula), dtype)
          end
        end
      end
    end)
  end

  it("pow multiplies exactly", function()
    local x = ct.tensor({ 2, 3, -2, 7, 0, 1 }, { dtype = "int64" })
    tensors.equal(x:pow(3), { shape = { 6 }, 8, 27, -8, 343, 0, 1 })
    tensors.equal(ct.tensor({ 3 }, { dtype = "int64" }):pow(ct.tensor({ 33 }, { dtype = "int64" })),
      { shape = { 1 }, 5559060566555523 })
  end)

  it("bit operations agree with two's complement", function()
    local x = ct.tensor({ 12, -1, 7, 0 }, { dtype = "int32" })
    local y = ct.tensor({ 10, 255, -8, 3 }, { dtype = "int32" })
    assert.same({ 8, 255, 0, 0 }, x:bitwise_and(y):totable())
    assert.same({ 14, -1, -1, 3 }, x:bitwise_or(y):totable())
    assert.same({ 6, -256, -1, 3 }, x:bitwise_xor(y):totable())
    assert.same({ -13, 0, -8, -1 }, x:bitwise_not():totable())
    local counts = ct.tensor({ 1, 2, 3, 4 }, { dtype = "int32" })
    assert.same({ 24, -4, 56, 0 }, x:bitwise_left_shift(counts):totable())
    assert.same({ 6, -1, 0, 0 }, x:bitwise_right_shift(counts):totable())
  end)

  it("shifts by the width or more give 0, not an undefined value", function()
    local x = ct.tensor({ 1, 5, 9 }, { dtype = "int32" })
    assert.same({ 0, 0, 0 }, x:bitwise_left_shift(ct.tensor({ 32, 40, 100 }, { dtype = "int32" })):totable())
  end)

  it("logical operations treat every non-zero as true", function()
    local x = ct.tensor { 0, 1, 2, 0 }
    local y = ct.tensor { 0, 0, -1, 3 }
    assert.same({ false, false, true, false }, x:logical_and(y):totable())
    assert.same({ false, true, true, true }, x:logical_or(y):totable())
    assert.same({ false, true, false, true }, x:logical_xor(y):totable())
    assert.same({ true, false, false, true }, x:logical_not():totable())
  end)
end)

describe("comparisons", function()
  local operations = {
    eq = function(x, y) return x == y end,
    ne = function(x, y) return x ~= y end,
    lt = function(x, y) return x < y end,
    le = function(x, y) return x <= y end,
    gt = function(x, y) return x > y end,
    ge = function(x, y) return x >= y end,
  }
  for name, formula in pairs(operations) do
    it(("%s agrees with Lua's own for every dtype, infinities and NaN included"):format(name), function()
      local values = { 0, -0.0, 1, -1, 2.5, huge, -huge, nan }
      for _, dtype in ipairs(tensors.float_dtypes) do
        local a = reference.array({ 64 }, function(i) return values[(i - 1) % 8 + 1] end)
        local b = reference.array({ 64 }, function(i) return values[math.floor((i - 1) / 8) + 1] end)
        local x, y = tensors.make(a, dtype), tensors.make(b, dtype)
        local out = x[name](x, y)
        assert.equal("bool", out.dtype)
        tensors.equal(out, reference.zip(a, b, function(p, q) return formula(p, q) and 1 or 0 end), dtype)
      end
      for _, dtype in ipairs(tensors.integer_dtypes) do
        local a = tensors.integers(random.new(5), { 41 }, 0, 3)
        local b = tensors.integers(random.new(6), { 41 }, 0, 3)
        local x, y = tensors.make(a, dtype), tensors.make(b, dtype)
        tensors.equal(x[name](x, y), reference.zip(a, b, function(p, q) return formula(p, q) and 1 or 0 end), dtype)
      end
    end)
  end

  it("of int64 beyond 2^53 are exact", function()
    local x = ct.tensor({ 1 }, { dtype = "int64" }):bitwise_left_shift(ct.tensor({ 60 }, { dtype = "int64" }))
    assert.same({ false }, x:eq(x + 1):totable())
    assert.same({ true }, x:lt(x + 1):totable())
  end)
end)

describe("where, clamp and lerp", function()
  it("where chooses element by element and broadcasts all three", function()
    local c = ct.tensor({ true, false, true }, { dtype = "bool" })
    assert.same({ { 1, 9, 1 }, { 2, 9, 2 } }, ct.where(c, ct.tensor { { 1 }, { 2 } }, 9):totable())
  end)

  it("where gives each side the gradient of its own elements", function()
    local condition = ct.tensor({ true, false, true, false, true }, { dtype = "bool" })
    gradient.check(function(x, y) return ct.where(condition, x, y) end,
      { reference.array({ 5 }, math.sin), reference.array({}, 0.3) })
  end)

  it("where(x > 0, sqrt(x), 0) has gradient 0, not NaN, at 0", function()
    local x = ct.tensor({ 0, 4, 0 }, { dtype = "float64", requires_grad = true })
    ct.where(x:gt(0), x:sqrt(), 0):sum():backward()
    assert.same({ 0, 0.25, 0 }, x.grad:totable())
  end)

  it("clamp bounds below, above and both, and keeps NaN", function()
    local x = ct.tensor { -3, -0.5, 0.5, 3, nan }
    tensors.equal(x:clamp(-1, 1), { shape = { 5 }, -1, -0.5, 0.5, 1, nan })
    tensors.equal(x:clamp { min = 0 }, { shape = { 5 }, 0, 0, 0.5, 3, nan })
    tensors.equal(x:clamp { max = 0 }, { shape = { 5 }, -3, -0.5, 0, 0, nan })
  end)

  it("clamp passes the gradient inside the bounds alone", function()
    gradient.check(function(x) return x:clamp(-1, 1) end, { { shape = { 4 }, -3, -0.5, 0.5, 3 } })
  end)

  it("lerp goes from the first to the second by its weight", function()
    local a, b = { shape = { 3 }, 1, 2, 3 }, { shape = { 3 }, 5, -2, 3 }
    tensors.close(tensors.make(a):lerp(tensors.make(b), 0.25), { shape = { 3 }, 2, 1, 3 }, 1e-15)
    gradient.check(function(x, y) return x:lerp(y, 0.3) end, { a, b })
  end)
end)

describe("maximum and minimum", function()
  it("give NaN where either side is NaN", function()
    local x = ct.tensor { nan, 1, 2, nan }
    local y = ct.tensor { 1, nan, 1, nan }
    tensors.equal(x:maximum(y), { shape = { 4 }, nan, nan, 2, nan })
    tensors.equal(x:minimum(y), { shape = { 4 }, nan, nan, 1, nan })
  end)

  it("share a tie's gradient so that it sums to 1", function()
    for _, name in ipairs { "maximum", "minimum" } do
      local x = ct.tensor({ 1, 1 }, { dtype = "float64", requires_grad = true })
      local y = ct.tensor({ 1, 1 }, { dtype = "float64", requires_grad = true })
      x[name](x, y):sum():backward()
      tensors.close(x.grad + y.grad, { shape = { 2 }, 1, 1 }, 0)
    end
  end)
end)

describe("the floating-point environment", function()
  it("keeps subnormal numbers, here and in a traced step", function()
    local step = ct.trace(function(x) return x * 1 end)
    for _ = 1, 3 do
      local x = ct.full({ 33 }, 1e-310, "float64")
      tensors.equal(x * 1, reference.array({ 33 }, 1e-310))
      tensors.equal(step(x), reference.array({ 33 }, 1e-310))
      tensors.equal(ct.full({ 33 }, 2 ^ -149, "float32") * 1, reference.array({ 33 }, 2 ^ -149))
    end
    assert.equal(1e-310, 1e-310 * 1)
  end)
end)

describe("narrow floats", function()
  it("round every result once, ties to even, and overflow to infinity", function()
    local generator = random.new(41)
    for _, dtype in ipairs { "float16", "bfloat16" } do
      local a, b = tensors.uniform(generator, { 999 }, -3, 3, dtype), tensors.uniform(generator, { 999 }, -3, 3, dtype)
      local x, y = tensors.make(a, dtype), tensors.make(b, dtype)
      local function rounded(f)
        return reference.zip(a, b, function(p, q) return floats.round(f(p, q), dtype) end)
      end
      tensors.equal(x * y, rounded(function(p, q) return p * q end), dtype)
      tensors.equal(x + y, rounded(function(p, q) return p + q end), dtype)
    end
    tensors.equal(ct.full({ 20 }, 60000, "float16") + ct.full({ 20 }, 60000, "float16"), reference.array({ 20 }, huge))
  end)

  it("round between operations, also in a traced step", function()
    -- 60000 + 60000 is infinite in float16, and stays so when 60000 is taken away again
    local function f(x) return (x + x) - x end
    local x = ct.full({ 40 }, 60000, "float16")
    tensors.equal(f(x), reference.array({ 40 }, huge))
    local step = ct.trace(f)
    for _ = 1, 3 do tensors.equal(step(x), reference.array({ 40 }, huge)) end
  end)
end)
