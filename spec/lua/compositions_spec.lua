-- Functions written in Lua over the primitives: at their limits, with their options, and what wrong arguments are told.
-- Their plain values are in spec/eager.
local ct = require "ctrain"
local random = require "spec.support.random"
local reference = require "spec.support.reference"
local tensors = require "spec.support.tensors"

local inf, nan = math.huge, 0 / 0

local function double(list) return ct.tensor(list, { dtype = "float64" }) end

local function fails(f, ...)
  local ok, message = pcall(f)
  assert.is_false(ok)
  for _, part in ipairs { ... } do
    assert.is_truthy(tostring(message):find(part, 1, true), tostring(message))
  end
end

describe("softmax", function()
  it("of equal logits is even, however large they are", function()
    assert.same({ 0.5, 0.5 }, ct.tensor({ 1e8, 1e8 }):softmax(1):totable())
    assert.same({ 0.5, 0.5 }, ct.tensor({ -3e38, -3e38 }):softmax(-1):totable())
  end)

  it("of a 0-d tensor is 1, of an empty one empty", function()
    assert.equal(1, ct.tensor(5):softmax(1):item())
    assert.same({ 0, 3 }, ct.zeros(0, 3):softmax(2).shape)
  end)

  it("of float16 beyond exp's range keeps its dtype and sums to 1", function()
    local result = ct.tensor({ 100, 100, -100 }, { dtype = "float16" }):softmax(1)
    assert.equal("float16", result.dtype)
    assert.same({ 0.5, 0.5, 0 }, result:totable())
  end)

  it("names a dimension that is not there", function()
    fails(function() return ct.zeros(2, 3):softmax(3) end, "softmax", "dim 3", "2x3")
  end)
end)

describe("log_softmax", function()
  it("of {1e8, 1e8} is -0.6931 in each, and of {1e8, 0} has 0 and -1e8", function()
    tensors.within_ulps(ct.tensor({ 1e8, 1e8 }):log_softmax(1), reference.array({ 2 }, -math.log(2)), 1)
    assert.same({ 0, -1e8 }, ct.tensor({ 1e8, 0 }):log_softmax(1):totable())
  end)

  it("of a row with -inf has -inf there and no NaN, nor has its gradient", function()
    local x = double({ 0, -inf, 0 }):requires_grad_(true)
    local y = x:log_softmax(1)
    tensors.within_ulps(y, { shape = { 3 }, -math.log(2), -inf, -math.log(2) }, 1)
    y[1]:backward()
    tensors.close(x.grad, { shape = { 3 }, 0.5, 0, -0.5 }, 1e-15, 1e-15)
  end)

  it("of a row of nothing but -inf is NaN, and leaves the next row alone", function()
    local y = double({ { -inf, -inf }, { 0, 0 } }):log_softmax(2)
    assert.same({ true, true, false, false }, y:isnan():reshape(4):totable())
  end)
end)

describe("logsumexp", function()
  it("of infinities is the infinity", function()
    assert.equal(inf, double({ inf, 0 }):logsumexp(1):item())
    assert.equal(-inf, double({ -inf, -inf }):logsumexp(1):item())
    assert.equal(1000, double({ 1000, -inf }):logsumexp(1):item())
  end)

  it("of no elements is -inf", function()
    assert.same({ -inf, -inf }, ct.zeros(2, 0):logsumexp(2):totable())
  end)

  it("keeps the dimensions that it is told to", function()
    assert.same({ 2, 1, 4 }, ct.zeros(2, 3, 4):logsumexp(2, true).shape)
    assert.same({ 3 }, ct.zeros(2, 3, 4):logsumexp({ 1, 3 }).shape)
    assert.same({ 1, 3, 1 }, ct.zeros(2, 3, 4):logsumexp({ dim = { 1, 3 }, keepdim = true }).shape)
  end)
end)

describe("var and std", function()
  local t = double { { 1, 2, 3, 4 }, { 2, 4, 6, 8 } }

  it("divide by one less than the count, or by what the correction says", function()
    assert.same({ 5 / 3, 20 / 3 }, t:var(2):totable())
    assert.same({ 1.25, 5 }, t:var(2, false):totable())
    assert.same({ 1.25, 5 }, t:var({ dim = 2, correction = 0 }):totable())
    assert.same({ 2.5, 10 }, t:var({ dim = 2, correction = 2 }):totable())
  end)

  it("std is the root of var", function()
    tensors.within_ulps(t:std(2, false), { shape = { 2 }, math.sqrt(1.25), math.sqrt(5) }, 1)
  end)

  it("of one element are NaN, without the correction 0", function()
    assert.is_true(double({ 3 }):var():isnan():item())
    assert.equal(0, double({ 3 }):var({ correction = 0 }):item())
  end)

  it("of integers are refused, and so are both names of the correction at once", function()
    fails(function() return ct.ones({ 3 }, "int32"):var() end, "var", "floating tensor, not int32")
    fails(function() return t:var({ unbiased = true, correction = 1 }) end, "unbiased or correction")
  end)

  it("at a mean far above the deviation lose nothing", function()
    -- 1e4 and 1e4 + 2^-10 are float32 numbers
    local a = ct.full({ 2, 5000 }, 1e4)
    a[2]:add_(2 ^ -10)
    tensors.close(a:var({ correction = 0 }), reference.array({}, 2 ^ -22), 1e-3)
  end)
end)

describe("norm", function()
  local t = double { { 3, -4 }, { 0, 0 } }

  it("is the 2-norm unless told otherwise", function()
    assert.equal(5, t:norm():item())
    assert.same({ 5, 0 }, t:norm(2, 2):totable())
    assert.equal(5, t:norm("fro"):item())
  end)

  it("counts for p = 0, adds for 1, takes the largest and smallest for infinity", function()
    assert.equal(2, t:norm(0):item())
    assert.equal(7, t:norm(1):item())
    assert.equal(4, t:norm(inf):item())
    assert.equal(4, t:norm("inf"):item())
    assert.equal(0, t:norm(-inf):item())
  end)

  it("takes other powers, a row of zeros included", function()
    tensors.within_ulps(t:norm(3, 2), { shape = { 2 }, 91 ^ (1 / 3), 0 }, 4)
  end)

  it("of p = NaN and of integers is refused", function()
    fails(function() return t:norm(nan) end, "norm: p must be a number")
    fails(function() return ct.ones({ 2 }, "int64"):norm() end, "norm", "int64")
  end)
end)

describe("clamp", function()
  it("takes one bound or both, tensors among them", function()
    local t = double { -2, 0, 2 }
    assert.same({ -1, 0, 2 }, t:clamp(-1):totable())
    assert.same({ -2, 0, 1 }, t:clamp(nil, 1):totable())
    assert.same({ -2, 0, 1 }, t:clamp({ max = 1 }):totable())
    assert.same({ -1, 0, 0.5 }, t:clamp(double { -1, -1, -1 }, double { 5, 5, 0.5 }):totable())
  end)

  it("with the bounds crossed gives the upper one, as PyTorch does", function()
    assert.same({ 1, 1 }, double({ 0, 5 }):clamp(3, 1):totable())
  end)

  it("keeps NaN, and the dtype of integers", function()
    assert.is_true(double({ nan }):clamp(0, 1):isnan():item())
    assert.equal("int8", ct.tensor({ 5 }, { dtype = "int8" }):clamp(0, 3).dtype)
  end)

  it("without a bound, or with an unknown one, is refused", function()
    fails(function() return double({ 1 }):clamp() end, "clamp: give min, max or both")
    fails(function() return double({ 1 }):clamp({ mini = 1 }) end, "unknown option 'mini'", "did you mean 'min'")
  end)
end)

describe("lerp", function()
  it("is exactly the ends at weights 0 and 1", function()
    local generator = random.new(8)
    local a, b = tensors.uniform(generator, { 50 }, -1e6, 1), tensors.uniform(generator, { 50 }, -1, 1e6)
    local x, y = tensors.make(a, "float32"), tensors.make(b, "float32")
    tensors.identical(x:lerp(y, 0), x)
    tensors.identical(x:lerp(y, 1), y)
    tensors.identical(x:lerp(y, ct.ones(50)), y)
  end)

  it("goes beyond the ends", function()
    assert.same({ 3, -1 }, double({ 1, 1 }):lerp(double { 2, 2 }, double { 2, -2 }):totable())
  end)
end)

describe("masked_fill", function()
  it("of integers takes whole values alone", function()
    local t, mask = ct.ones({ 2 }, "int32"), ct.tensor { true, false }
    assert.same({ 7, 1 }, t:masked_fill(mask, 7.0):totable())
    fails(function() return t:masked_fill(mask, 0.5) end, "masked_fill", "0.5", "int32")
  end)

  it("takes masks of bool that broadcast, and no others", function()
    assert.same({ { 9, 1 }, { 9, 1 } }, ct.ones(2, 2):masked_fill(ct.tensor { true, false }, 9):totable())
    fails(function() return ct.ones(2):masked_fill(ct.ones(2), 9) end, "mask must be bool, not float32")
  end)
end)
