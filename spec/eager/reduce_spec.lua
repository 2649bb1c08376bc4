-- Reductions against plain float64 loops over shapes, layouts, dimensions and dtypes; their accuracy, their bits, NaN
-- and ties.
local ct = require "ctrain"
local gradient = require "spec.support.gradient"
local random = require "spec.support.random"
local reference = require "spec.support.reference"
local tensors = require "spec.support.tensors"

local huge, nan = math.huge, 0 / 0

local function product(list)
  local p = 1
  for _, x in ipairs(list) do p = p * x end
  return p
end

local function extreme(better)
  return function(list)
    local best = list[1]
    for _, x in ipairs(list) do
      if best == best and (x ~= x or better(x, best)) then best = x end
    end
    return best
  end
end

local function position(better)
  return function(list)
    local at = 1
    for i, x in ipairs(list) do
      if list[at] == list[at] and (x ~= x or better(x, list[at])) then at = i end
    end
    return at - 1
  end
end

local function greater(x, y) return x > y end
local function less(x, y) return x < y end

local function variance(correction)
  return function(list)
    local mean = reference.sum(list) / #list
    local squares = {}
    for i, x in ipairs(list) do squares[i] = (x - mean) ^ 2 end
    return reference.sum(squares) / (#list - correction)
  end
end

local formulas = {
  sum = reference.sum,
  mean = function(list) return reference.sum(list) / #list end,
  prod = product,
  logsumexp = function(list)
    local top, terms = extreme(greater)(list), {}
    if #list == 0 or top == -huge then return -huge end
    for i, x in ipairs(list) do terms[i] = math.exp(x - top) end
    return top + math.log(reference.sum(terms))
  end,
  norm = function(list)
    local squares = {}
    for i, x in ipairs(list) do squares[i] = x * x end
    return math.sqrt(reference.sum(squares))
  end,
}

-- Every set of dimensions a shape of up to three dimensions has, nil (all) first.
local function dimension_sets(shape)
  local sets = { false }
  if #shape == 1 then sets[#sets + 1] = { 1 } end
  if #shape == 2 then for _, s in ipairs { { 1 }, { 2 }, { 1, 2 }, { -1 } } do sets[#sets + 1] = s end end
  if #shape >= 3 then
    for _, s in ipairs { { 1 }, { 2 }, { 3 }, { 1, 3 }, { 2, -1 }, { 1, 2, 3 } } do sets[#sets + 1] = s end
  end
  return sets
end

describe("the reduction", function()
  for name, formula in pairs(formulas) do
    describe(name, function()
      it("follows its formula over every dimension, shape and layout in float64 and float32", function()
        local generator = random.new(51)
        for _, dtype in ipairs { "float64", "float32" } do
          tensors.each_layout(function(shape, layout, label)
            local a = tensors.uniform(generator, shape, 0.5, 1.5, dtype)
            local t = tensors.make(a, dtype, layout)
            for _, dims in ipairs(dimension_sets(shape)) do
              local one = dims and #dims == 1 and dims[1] or dims or nil
              if not (name == "prod" and type(one) == "table") then
                for _, keepdim in ipairs { false, true } do
                  local expected = reference.reduce(a, dims or nil, keepdim, formula)
                  local tolerance = dtype == "float64" and 1e-14 or 2e-6
                  if #a == 0 and (name == "mean" or name == "logsumexp") then tolerance = 0 end
                  local out
                  if one ~= nil then
                    out = name == "norm" and t:norm { dim = one, keepdim = keepdim } or t[name](t, one, keepdim)
                  else
                    out = t[name](t, { keepdim = keepdim })
                  end
                  assert.equal(dtype, out.dtype)
                  tensors.close(out, expected, tolerance, tolerance, label)
                end
              end
            end
          end)
        end
      end)

      it("has the gradient that differences give", function()
        local generator = random.new(52)
        for _, shape in ipairs { {}, { 1 }, { 5 }, { 2, 3 }, { 2, 3, 2 } } do
          local a = tensors.uniform(generator, shape, 0.5, 1.5)
          gradient.check(function(x) return x[name](x) end, { a })
          if #shape > 0 then
            gradient.check(function(x) return x[name](x, { dim = 1 }) end, { a })
            gradient.check(function(x) return x[name](x, { dim = -1, keepdim = true }) end, { a })
          end
        end
      end)
    end)
  end

  it("is right across block borders and odd lengths, along every dimension", function()
    local generator = random.new(53)
    for _, shape in ipairs(tensors.long_shapes) do
      local a = tensors.uniform(generator, shape, -1, 1, "float32")
      for _, layout in ipairs { "contiguous", "transposed" } do
        local t = tensors.make(a, "float32", layout)
        tensors.close(t:sum(), reference.reduce(a, nil, false, reference.sum), 2e-6, 2e-5)
        for d = 1, #shape do
          tensors.close(t:sum(d), reference.reduce(a, { d }, false, reference.sum), 2e-6, 2e-5)
          tensors.equal(t:amax(d), reference.reduce(a, { d }, false, extreme(greater)))
        end
      end
    end
  end)

  it("var and std take the correction that PyTorch takes, over any dimensions", function()
    local a = tensors.uniform(random.new(54), { 3, 4, 5 }, -2, 2)
    local t = tensors.make(a)
    tensors.close(t:var(), reference.reduce(a, nil, false, variance(1)), 1e-13)
    tensors.close(t:var(2), reference.reduce(a, { 2 }, false, variance(1)), 1e-13)
    tensors.close(t:var({ 1, 3 }), reference.reduce(a, { 1, 3 }, false, variance(1)), 1e-13)
    tensors.close(t:std { dim = 3, keepdim = true, correction = 0 },
      reference.reduce(a, { 3 }, true, function(l) return math.sqrt(variance(0)(l)) end), 1e-13)
    gradient.check(function(x) return x:var(1) end, { a })
    gradient.check(function(x) return x:std { correction = 0 } end, { a })
  end)

  it("any and all hold for every dtype, NaN counting as true", function()
    for _, dtype in ipairs(tensors.dtypes) do
      local t = ct.tensor({ { 0, 0, 1 }, { 0, 0, 0 } }, { dtype = "float32" }):to(dtype)
      assert.same({ true, false }, t:any(2):totable())
      assert.same({ false, false, true }, t:any(1):totable())
      assert.is_false(t:all():item())
      assert.is_true(ct.ones({ 70 }, dtype):all():item())
    end
    assert.is_true(ct.tensor({ nan }):any():item())
  end)

  it("of integers adds in int64", function()
    local t = ct.full({ 1000 }, 120, "int8")
    assert.equal("int64", t:sum().dtype)
    assert.equal(120000, tonumber(t:sum():item()))
    assert.equal("int64", ct.ones({ 5 }, "bool"):sum().dtype)
    assert.equal(5, tonumber(ct.ones({ 5 }, "bool"):sum():item()))
    assert.equal(81, tonumber(ct.tensor({ 3, 3, 9 }, { dtype = "uint8" }):prod():item()))
  end)
end)

describe("max and min", function()
  for _, case in ipairs { { "max", greater, "amax", "argmax" }, { "min", less, "amin", "argmin" } } do
    local name, better, values_name, position_name = case[1], case[2], case[3], case[4]
    it(("%s gives the value over all, values and positions over a dimension"):format(name), function()
      local generator = random.new(55)
      for _, dtype in ipairs { "float64", "float32", "float16", "bfloat16", "int32", "uint8" } do
        for _, shape in ipairs { {}, { 1 }, { 7 }, { 3, 5 }, { 2, 3, 4 }, { 5, 131 }, { 131, 5 } } do
          for _, layout in ipairs { "contiguous", "transposed", "strided", "flipped" } do
            local a = tensors.integers(generator, shape, 0, 20)
            local t = tensors.make(a, dtype, layout)
            tensors.equal(t[name](t), reference.reduce(a, nil, false, extreme(better)))
            tensors.equal(t[position_name](t), reference.reduce(a, nil, false, position(better)))
            for d = 1, #shape do
              local values, indices = t[name](t, d)
              assert.equal(dtype, values.dtype)
              assert.equal("int64", indices.dtype)
              tensors.equal(values, reference.reduce(a, { d }, false, extreme(better)))
              tensors.equal(indices, reference.reduce(a, { d }, false, position(better)))
              tensors.equal(t[values_name](t, d, true), reference.reduce(a, { d }, true, extreme(better)))
              tensors.equal(t[position_name](t, d, true), reference.reduce(a, { d }, true, position(better)))
            end
          end
        end
      end
    end)

    it(("%s finds a NaN at the start, in the middle and in the tail of a vector"):format(name), function()
      for _, dtype in ipairs(tensors.float_dtypes) do
        for _, n in ipairs { 1, 5, 64, 67, 131, 4099 } do
          for _, at in ipairs { 1, math.ceil(n / 2), n } do
            local a = reference.array({ n }, function(i) return i == at and nan or i % 17 end)
            local t = tensors.make(a, dtype)
            local value = t[name](t):item()
            assert.is_true(value ~= value, ("%s of %d elements, NaN at %d"):format(dtype, n, at))
            assert.equal(at - 1, tonumber(t[position_name](t):item()))
            local columns = t:reshape(n, 1):expand(n, 3)
            tensors.equal(columns[position_name](columns, 1), reference.array({ 3 }, at - 1))
          end
        end
      end
    end)
  end

  it("argmax keeps its offsets across rows and columns of 40x900x1", function()
    local a = tensors.uniform(random.new(56), { 40, 900, 1 }, -1, 1, "float32")
    local t = tensors.make(a, "float32")
    for d = 1, 3 do
      tensors.equal(t:argmax(d), reference.reduce(a, { d }, false, position(greater)))
      tensors.equal(t:argmin(d), reference.reduce(a, { d }, false, position(less)))
    end
  end)

  it("argmax gives the first of equal elements", function()
    local t = ct.zeros(3, 200)
    t[{ {}, 150 }] = 1
    t[{ {}, 199 }] = 1
    assert.same({ 149, 149, 149 }, t:argmax(2):totable())
  end)

  it("share the gradient of ties so that it sums to 1", function()
    for _, name in ipairs { "max", "min", "amax", "amin" } do
      local x = ct.tensor({ { 2, 2, 2 }, { 1, 5, 1 } }, { dtype = "float64", requires_grad = true })
      local out = x[name](x, 2)
      out:sum():backward()
      tensors.close(x.grad:sum(2), { shape = { 2 }, 1, 1 }, 1e-15)
      local y = ct.tensor({ 3, 1, 3 }, { dtype = "float64", requires_grad = true })
      y[name](y):backward()
      tensors.close(y.grad:sum(), { shape = {}, 1 }, 1e-15)
    end
  end)
end)

describe("empty reductions", function()
  it("sum to 0 and multiply to 1", function()
    assert.equal(0, ct.zeros(0, 3):sum():item())
    assert.equal(1, ct.zeros(0):prod():item())
    assert.same({ 0, 0, 0 }, ct.zeros(0, 3):sum(1):totable())
    assert.same({ 0 }, ct.zeros(0, 3):sum(2).shape)
    assert.is_true(ct.zeros(0):all():item())
    assert.is_false(ct.zeros(0):any():item())
  end)

  it("have no maximum, but over another dimension they do", function()
    for _, name in ipairs { "max", "min", "argmax", "argmin", "amax" } do
      local t = ct.zeros(0, 3)
      assert.has_error(function() t[name](t) end)
      assert.has_error(function() t[name](t, 1) end)
      assert.same({ 0 }, (t[name](t, 2)).shape)
    end
  end)

  it("have a mean of NaN", function()
    local m = ct.zeros(0):mean():item()
    assert.is_true(m ~= m)
  end)
end)

describe("the accuracy of a reduction", function()
  it("sums 2^25 float32 ones exactly", function()
    assert.equal(2 ^ 25, ct.ones(2 ^ 25):sum():item())
  end)

  it("averages 8e8 ones to 1 without storing them", function()
    assert.equal(1, ct.ones({ 1 }):expand(800000000):mean():item())
  end)

  it("gives the variance at mean 1e4 and deviation 1e-3", function()
    local a = reference.array({ 4096 }, function(i) return 1e4 + (i % 2 == 0 and 1e-3 or -1e-3) end)
    tensors.close(tensors.make(a):var { correction = 0 }, { shape = {}, 1e-6 }, 1e-6)
    -- the mean of float32 is rounded to 2^-11 or so, far more than the deviation's square
    local b = tensors.uniform(random.new(57), { 2000 }, 9999, 10001, "float32")
    tensors.close(tensors.make(b, "float32"):var(), reference.reduce(b, nil, false, variance(1)), 1e-6)
  end)

  it("has the same bits for an expanded tensor and its copy, and for any strides", function()
    local row = tensors.make(tensors.uniform(random.new(58), { 1, 777 }, -1, 1, "float32"), "float32")
    local wide = row:expand(50, 777)
    for _, name in ipairs { "sum", "mean", "logsumexp", "norm", "std" } do
      tensors.identical(wide[name](wide), wide:contiguous()[name](wide:contiguous()), name)
      for d = 1, 2 do
        tensors.identical(wide[name](wide, { dim = d }), wide:contiguous()[name](wide:contiguous(), { dim = d }), name)
      end
    end
    local a = tensors.uniform(random.new(59), { 67, 311 }, -1, 1, "float32")
    local plain = tensors.make(a, "float32")
    for _, layout in ipairs(tensors.layouts) do
      local t = tensors.make(a, "float32", layout)
      tensors.identical(t:sum(), plain:sum(), layout)
      tensors.identical(t:sum(1), plain:sum(1), layout)
      tensors.identical(t:sum(2), plain:sum(2), layout)
    end
  end)

  it("sums float16 and bfloat16 without saturating on the way", function()
    for _, dtype in ipairs { "float16", "bfloat16" } do
      local t = ct.full({ 5000 }, 0.5, dtype)
      tensors.within_ulps(t:sum(), { shape = {}, 2500 }, 1, dtype)
      tensors.equal(t:mean(), { shape = {}, 0.5 })
    end
  end)
end)

describe("softmax and its kin", function()
  local function softmax(list)
    local top, sum, out = extreme(greater)(list), 0, {}
    for i, x in ipairs(list) do
      out[i] = math.exp(x - top)
      sum = sum + out[i]
    end
    for i = 1, #list do out[i] = out[i] / sum end
    return out
  end
  local function log_softmax(list)
    local total, out = formulas.logsumexp(list), {}
    for i, x in ipairs(list) do out[i] = x - total end
    return out
  end

  it("follow their formulas along any dimension, shape and layout", function()
    local generator = random.new(61)
    for _, dtype in ipairs { "float64", "float32" } do
      tensors.each_layout(function(shape, layout, label)
        local a = tensors.uniform(generator, shape, -4, 4, dtype)
        local t = tensors.make(a, dtype, layout)
        local tolerance = dtype == "float64" and 1e-13 or 2e-6
        for d = 1, #shape do
          tensors.close(t:softmax(d), reference.along(a, d, softmax), tolerance, 0, label)
          tensors.close(t:log_softmax(d), reference.along(a, d, log_softmax), tolerance, tolerance, label)
        end
      end)
    end
  end)

  it("have the gradients that differences give", function()
    local a = tensors.uniform(random.new(62), { 3, 4 }, -2, 2)
    for d = 1, 2 do
      gradient.check(function(x) return x:softmax(d) end, { a })
      gradient.check(function(x) return x:log_softmax(d) end, { a })
      gradient.check(function(x) return x:logsumexp(d) end, { a })
    end
  end)

  it("stay finite for large logits, in vectors and in tails", function()
    for _, n in ipairs { 2, 3, 64, 131 } do
      local t = ct.full({ 2, n }, 1e8)
      tensors.close(t:log_softmax(2), reference.array({ 2, n }, -math.log(n)), 1e-6)
      tensors.close(t:softmax(2), reference.array({ 2, n }, 1 / n), 1e-6)
    end
    local loss = ct.nn.functional.cross_entropy(ct.tensor { { 1e8, 1e8 } }, ct.tensor({ 0 }, { dtype = "int64" }))
    assert.is_true(math.abs(loss:item() - 0.6931472) < 1e-6)
  end)

  it("take rows with -inf, and give NaN where all of a row is -inf", function()
    local t = ct.tensor({ { -huge, 0, -huge }, { -huge, -huge, -huge } }, { dtype = "float64" })
    tensors.equal(t:softmax(2), { shape = { 2, 3 }, 0, 1, 0, nan, nan, nan })
    tensors.equal(t:logsumexp(2), { shape = { 2 }, 0, -huge })
  end)
end)

describe("cumsum", function()
  local function running(list)
    local out, sum = {}, 0
    for i, x in ipairs(list) do
      sum = sum + x
      out[i] = sum
    end
    return out
  end

  it("adds along any dimension, shape and layout", function()
    local generator = random.new(63)
    tensors.each_layout(function(shape, layout, label)
      local a = tensors.uniform(generator, shape, -1, 1)
      local t = tensors.make(a, "float64", layout)
      for d = 1, #shape do
        tensors.close(t:cumsum(d), reference.along(a, d, running), 1e-13, 1e-13, label)
      end
    end)
  end)

  it("has the gradient that differences give", function()
    gradient.check(function(x) return x:cumsum(1) end, { tensors.uniform(random.new(64), { 4, 3 }, -1, 1) })
    gradient.check(function(x) return x:cumsum(-1) end, { tensors.uniform(random.new(65), { 4, 3 }, -1, 1) })
  end)
end)
