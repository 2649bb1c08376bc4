-- The floating-point environment and the narrow types where compiled code could differ: subnormals, overflow and
-- rounding at every node, NaN of any payload, conversions of what no integer holds.
local ct = require "ctrain"
local floats = require "spec.support.floats"
local modes = require "spec.support.modes"
local random = require "spec.support.random"
local reference = require "spec.support.reference"
local tensors = require "spec.support.tensors"

local inf, nan = math.huge, 0 / 0

local function narrow(x, scale)
  local half, brain = x:half(), x:bfloat16()
  return {
    (half * 60000 - half * 59000), (half * 2048 + 1) - half * 2048, (half + half) / 3,
    (brain * 3e38 + brain * 3e38) - brain * 3e38, (brain * 256 + 1) - brain * 256, (brain + brain) / 3,
    half:exp():sum(), brain:exp():mean(), half:float() * scale, brain:to("float16"), half:to("bfloat16"),
    x:double():half(), (x:double() * 2 ^ -24):half(), (x * 1e-40):bfloat16(),
  }
end

local function awkward(x)
  return {
    x:to("int32"), x:to("int64"), x:to("bool"), x:half(), x:bfloat16(), x:double():to("int64"),
    x:maximum(0), x:minimum(0), x:sign(), x:ne(x), x:le(x), x:exp(), x:tanh(), x:sigmoid(), x:clamp(-1, 1),
    ct.where(x:gt(0), x, 0), x:round(),
    (x:max()), x:argmax(), x:remainder(3), x:floor_divide(3), x:pow(3), x:abs():sqrt():log(),
  }
end

local function tiny(x, y)
  return { x * 1, x + x, x / 2, -x, x:abs(), x * y, x:maximum(0), x:sum() }
end

local function compare(expected, got, what)
  assert.equal(#expected, #got)
  for i, t in ipairs(expected) do tensors.identical(got[i], t, what .. ", result " .. i) end
end

describe("a compiled step", function()
  it("rounds narrow floats at every node, as eager code does", function()
    local step = modes.compiled(narrow)
    for call = 1, 3 do
      local x = tensors.make(tensors.uniform(random.new(call), { 37 }, -2, 2, "float32"), "float32")
      local scale = ct.full({ 37 }, 3)
      compare(narrow(x, scale), step(x, scale), "call " .. call)
    end
  end)

  it("treats NaN, infinities and what no integer holds as eager code does", function()
    local step = modes.compiled(awkward)
    local values = { nan, inf, -inf, 0, -0.0, 1, -1, 0.5, 1.5, 2.5, 3e9, -3e9, 1e19, -1e19, 1e-40, 7e4, -7e4 }
    for call = 1, 3 do
      local a = reference.array({ 41 }, function(i) return values[(i * call) % #values + 1] end)
      local x = tensors.make(a, "float32")
      compare(awkward(x), step(x), "call " .. call)
    end
  end)

  it("leaves subnormal numbers subnormal, in itself and in all that runs after it", function()
    local step = modes.compiled(tiny)
    for _, dtype in ipairs { "float64", "float32" } do
      local least = dtype == "float64" and 1e-310 or 2 ^ -140
      for _ = 1, 3 do
        local x, y = ct.full({ 19 }, least, dtype), ct.full({ 19 }, 2, dtype)
        local result = step(x, y)
        tensors.equal(result[1], reference.array({ 19 }, least))
        tensors.equal(result[2], reference.array({ 19 }, 2 * least))
        compare(tiny(x, y), result, dtype)
      end
    end
    assert.equal(1e-310, tonumber("1e-310") * tonumber("1"))
    tensors.equal(ct.full({ 70001 }, 1e-310, "float64") * 1, reference.array({ 70001 }, 1e-310))
  end)
end)

describe("after a product of matrices", function()
  it("subnormal numbers are subnormal still, in this thread and in others", function()
    for _, dtype in ipairs { "float32", "float64" } do
      local _ = ct.ones({ 200, 200 }, dtype):matmul(ct.ones({ 200, 200 }, dtype)):sum():item()
      local least = dtype == "float64" and 1e-310 or 2 ^ -140
      assert.equal(200000, (ct.full({ 200000 }, least, dtype) * 1):eq(least):sum():item())
    end
  end)
end)

describe("the reference's rounding of narrow floats", function()
  it("has the values of IEEE 754 and of bfloat16 that are known", function()
    assert.equal(65504, floats.round(65519.99, "float16"))
    assert.equal(inf, floats.round(65520, "float16"))
    assert.equal(2048, floats.round(2049, "float16"))
    assert.equal(2052, floats.round(2051, "float16"))
    assert.equal(2 ^ -24, floats.round(2 ^ -25 * 1.001, "float16"))
    assert.equal(0, floats.round(2 ^ -25, "float16"))
    assert.equal(256, floats.round(257, "bfloat16"))
    assert.equal(260, floats.round(259, "bfloat16"))
    assert.equal(16777216, floats.round(16777217, "float32"))
  end)
end)

if rawget(_G, "jit") then
  describe("a NaN whose payload is in the lowest bits alone", function()
    local ffi = require "ffi"

    local function with_payload(n)
      local t = ct.zeros(n)
      local bits = ffi.cast("uint32_t *", ffi.cast("void *", t:data()))
      for i = 0, n - 1 do bits[i] = i % 2 == 0 and 0x7f800001 or 0xff800001 end
      return t
    end

    it("stays a NaN in float16 and bfloat16, in vectors and in tails", function()
      for _, n in ipairs { 1, 2, 7, 16, 67 } do
        for _, dtype in ipairs { "float16", "bfloat16", "float64" } do
          assert.equal(n, tonumber(with_payload(n):to(dtype):isnan():sum():item()))
        end
      end
    end)
  end)
end
