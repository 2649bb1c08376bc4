-- The gradient of every differentiable operation against central differences in float64, for arguments that lie in
-- memory as they come and transposed; second derivatives; and the places where a formula alone would go wrong.
local ct = require "ctrain"
local gradient = require "spec.support.gradient"
local random = require "spec.support.random"
local tensors = require "spec.support.tensors"

local function int64(list) return ct.tensor(list, { dtype = "int64" }) end

local rows, columns = int64 { 2, 0, 2, 1 }, int64 { { 0, 3, 1 }, { 2, 2, 0 } }

local function method(name)
  return function(x, ...) return x[name](x, ...) end
end

-- name, function, range of the elements, shapes of the arguments
local cases = {
  { "neg", method "neg", -2, 2, { 3, 4 } },
  { "abs", method "abs", 0.3, 2, { 3, 4 } },
  { "abs of negatives", method "abs", -2, -0.3, { 3, 4 } },
  { "sqrt", method "sqrt", 0.3, 4, { 3, 4 } },
  { "rsqrt", method "rsqrt", 0.3, 4, { 3, 4 } },
  { "exp", method "exp", -2, 2, { 3, 4 } },
  { "log", method "log", 0.3, 4, { 3, 4 } },
  { "log1p", method "log1p", -0.7, 3, { 3, 4 } },
  { "expm1", method "expm1", -2, 2, { 3, 4 } },
  { "sin", method "sin", -3, 3, { 3, 4 } },
  { "cos", method "cos", -3, 3, { 3, 4 } },
  { "tanh", method "tanh", -2, 2, { 3, 4 } },
  { "sigmoid", method "sigmoid", -3, 3, { 3, 4 } },
  { "erf", method "erf", -2, 2, { 3, 4 } },
  { "a cast to float64 of itself", function(x) return x:to("float64") * x end, -2, 2, { 3 } },
  { "add", method "add", -2, 2, { 3, 4 }, { 3, 4 } },
  { "sub, the second of one row", method "sub", -2, 2, { 3, 4 }, { 1, 4 } },
  { "mul, the first a column, the second a row", method "mul", -2, 2, { 3, 1 }, { 4 } },
  { "div by a scalar", method "div", 0.5, 2, { 3, 4 }, {} },
  { "div of a scalar", method "div", 0.5, 2, {}, { 3, 4 } },
  { "pow", method "pow", 0.5, 2, { 3, 4 }, { 3, 4 } },
  { "a square", function(x) return x ^ 2 end, -2, 2, { 3, 4 } },
  { "a cube of negatives", function(x) return x ^ 3 end, -2, -0.5, { 3, 4 } },
  { "a power of a number", function(x) return 3 ^ x end, -1, 1, { 3, 4 } },
  { "remainder", function(x, y) return x:remainder(y) end, 0.6, 0.9, { 3 }, { 3 } },
  { "maximum", method "maximum", -2, 2, { 3, 4 }, { 4 } },
  { "minimum", method "minimum", -2, 2, { 3, 1 }, { 3, 4 } },
  { "where", function(x, y) return ct.where(x:detach():gt(0), x * 2, y) end, -2, 2, { 3, 4 }, { 4 } },
  { "sum over one dimension", function(x) return x:sum(1) end, -2, 2, { 3, 4 } },
  { "sum over two of three dimensions", function(x) return x:sum({ 1, 3 }, true) end, -2, 2, { 2, 3, 4 } },
  { "mean", function(x) return x:mean(2) end, -2, 2, { 3, 4 } },
  { "prod", function(x) return x:prod(2) end, 0.5, 2, { 3, 4 } },
  { "max", function(x) return (x:max(1)) end, -2, 2, { 3, 4 } },
  { "min over everything", function(x) return x:min() end, -2, 2, { 3, 4 } },
  { "cumsum", function(x) return x:cumsum(2) end, -2, 2, { 3, 4 } },
  { "reshape", function(x) return x:reshape(6, 2) * 2 end, -2, 2, { 3, 4 } },
  { "permute", function(x) return x:permute(3, 1, 2) end, -2, 2, { 2, 3, 4 } },
  { "expand", function(x) return x:expand(5, 3, 4) end, -2, 2, { 3, 1 } },
  { "flip", function(x) return x:flip({ 1, 2 }) end, -2, 2, { 3, 4 } },
  { "narrow", function(x) return x:narrow(2, 2, 2) end, -2, 2, { 3, 4 } },
  { "a slice with a step", function(x) return x[{ {}, { 1, 4, 3 } }] end, -2, 2, { 3, 4 } },
  { "a strided slice that selects one", function(x) return x[{ { 2, 3, 2 }, 1 }] end, -2, 2, { 3, 4 } },
  { "diagonal", function(x) return x:diagonal(1) end, -2, 2, { 3, 4 } },
  { "contiguous and clone", function(x) return x:t():contiguous():clone() end, -2, 2, { 3, 4 } },
  { "cat", function(x, y) return ct.cat({ x, y, x }, 1) end, -2, 2, { 3, 4 }, { 2, 4 } },
  { "matmul", method "matmul", -2, 2, { 3, 4 }, { 4, 2 } },
  { "matmul of batches that broadcast", method "matmul", -2, 2, { 2, 1, 3, 4 }, { 3, 4, 2 } },
  { "matmul of vectors", method "matmul", -2, 2, { 4 }, { 4 } },
  { "matmul of a vector and a batch", method "matmul", -2, 2, { 4 }, { 2, 4, 3 } },
  { "matmul of a tensor with its own transpose", function(x) return x:matmul(x:t()) end, -2, 2, { 3, 4 } },
  { "index_select with repeats", function(x) return x:index_select(1, rows) end, -2, 2, { 3, 4 } },
  { "gather", function(x) return x:gather(2, columns) end, -2, 2, { 2, 4 } },
  { "scatter_add", function(x, y) return x:scatter_add(2, columns, y) end, -2, 2, { 2, 4 }, { 2, 3 } },
  { "sort", function(x) return (x:sort(2, true)) end, -2, 2, { 3, 4 } },
  { "topk", function(x) return (x:topk(2, 2)) end, -2, 2, { 3, 4 } },
  { "softmax", function(x) return x:softmax(1) end, -2, 2, { 3, 4 } },
  { "log_softmax", function(x) return x:log_softmax(2) end, -2, 2, { 3, 4 } },
  { "logsumexp", function(x) return x:logsumexp({ 1, 2 }) end, -2, 2, { 3, 4 } },
  { "var", function(x) return x:var(1) end, -2, 2, { 3, 4 } },
  { "std", function(x) return x:std() end, -2, 2, { 3, 4 } },
  { "the 2-norm", function(x) return x:norm(2, 1) end, -2, 2, { 3, 4 } },
  { "the 3-norm", function(x) return x:norm(3, 1) end, 0.5, 2, { 3, 4 } },
  { "clamp", function(x) return x:clamp(-1, 1) end, -2, 2, { 3, 4 } },
  { "lerp", function(x, y) return x:lerp(y, 0.3) end, -2, 2, { 3, 4 }, { 4 } },
  { "masked_fill", function(x) return x:masked_fill(x:detach():gt(0), 7) end, -2, 2, { 3, 4 } },
  { "pad", function(x) return x:pad({ 1, 2, -1, 1 }, 3) end, -2, 2, { 3, 4 } },
  { "stack", function(x, y) return ct.stack({ x, y }, 2) end, -2, 2, { 3, 4 }, { 3, 4 } },
  { "roll", function(x) return x:roll({ 1, -1 }, { 1, 2 }) end, -2, 2, { 3, 4 } },
  { "tril", function(x) return x:tril(1) end, -2, 2, { 3, 4 } },
  { "einsum", function(x, y) return ct.einsum("ij,kj->ik", x, y) end, -2, 2, { 3, 4 }, { 2, 4 } },
  { "outer", function(x, y) return x:outer(y) end, -2, 2, { 3 }, { 4 } },
  { "repeat", function(x) return x["repeat"](x, 2, 3) end, -2, 2, { 3, 4 } },
}

describe("the gradient of", function()
  for _, case in ipairs(cases) do
    it(case[1] .. " is what differences give", function()
      for _, layout in ipairs { "contiguous", "transposed" } do
        local generator, arrays = random.new(11), {}
        for i = 5, #case do
          arrays[#arrays + 1] = tensors.uniform(generator, case[i], case[3], case[4])
        end
        gradient.check(case[2], arrays, { layout = layout, what = layout })
      end
    end)
  end

  it("floor, ceil, round, trunc and sign is zero", function()
    for _, name in ipairs { "floor", "ceil", "round", "trunc", "sign" } do
      local x = ct.tensor({ 1.3, -0.4 }):requires_grad_(true)
      x[name](x):sum():backward()
      assert.same({ 0, 0 }, x.grad:totable())
    end
  end)
end)

describe("the second derivative of", function()
  local functions = {
    { "exp", method "exp", -1, 1 },
    { "log", method "log", 0.5, 3 },
    { "sqrt", method "sqrt", 0.5, 3 },
    { "rsqrt", method "rsqrt", 0.5, 3 },
    { "sin", method "sin", -2, 2 },
    { "tanh", method "tanh", -1, 1 },
    { "sigmoid", method "sigmoid", -2, 2 },
    { "erf", method "erf", -1, 1 },
    { "log1p", method "log1p", 0, 2 },
    { "expm1", method "expm1", -1, 1 },
    { "a division", function(x) return 1 / (1 + x * x) end, -1, 1 },
    { "a cube", function(x) return x ^ 3 end, 0.5, 2 },
    { "a power of itself", function(x) return x:pow(x) end, 0.5, 2 },
    { "a product of all", function(x) return x:prod() end, 0.5, 2 },
    { "a cumulative sum, squared", function(x) return x:cumsum(1):square() end, -1, 1 },
    { "a product of matrices", function(x) return x:matmul(x:t()):matmul(x) end, -1, 1 },
    { "softmax", function(x) return x:softmax(2) end, -1, 1 },
    { "logsumexp", function(x) return x:logsumexp(1) end, -1, 1 },
    { "the variance", function(x) return x:var(2) end, -1, 1 },
    { "the norm", function(x) return x:norm() end, 0.5, 1 },
    { "repeated rows, squared", function(x) return x:index_select(1, int64 { 0, 1, 0 }):square() end, -1, 1 },
    { "a slice of squares", function(x) return (x * x)[{ 1, { 2, 3 } }] * x[{ 2, { 1, 2 } }] end, -1, 1 },
  }
  for _, case in ipairs(functions) do
    it(case[1] .. " is what differences of the first give", function()
      gradient.check_second(case[2], tensors.uniform(random.new(12), { 2, 3 }, case[3], case[4]))
    end)
  end

  it("x^4, derived once more, is 24 x", function()
    local x = ct.tensor({ 0.5 }, { dtype = "float64" }):requires_grad_(true)
    local d = x * x * x * x
    for _ = 1, 3 do
      d = ct.grad({ d:sum() }, { x }, { create_graph = true })
      d = type(d) == "table" and d[1] or d
    end
    assert.is_true(math.abs(d:item() - 12) < 1e-12)
  end)
end)

local function gradient_of(f, values, dtype)
  local x = ct.tensor(values, { dtype = dtype or "float64" }):requires_grad_(true)
  f(x):sum():backward()
  return x.grad:totable()
end

describe("a gradient at a point where the formula has none", function()
  it("is 0 for a masked square root of 0", function()
    assert.same({ 0, 0.25, 0 }, gradient_of(function(x) return ct.where(x:gt(0), x:sqrt(), 0) end, { 0, 4, -1 }))
  end)

  it("is 0 for a masked logarithm and a masked reciprocal of 0", function()
    assert.same({ 0, 0.5 }, gradient_of(function(x) return ct.where(x:gt(0), x:log(), 0) end, { 0, 2 }))
    assert.same({ 0, -0.25 }, gradient_of(function(x) return ct.where(x:gt(0), 1 / x, 0) end, { 0, 2 }))
  end)

  it("is infinite for a square root of 0 that is used", function()
    assert.same({ math.huge }, gradient_of(function(x) return x:sqrt() end, { 0 }))
  end)

  it("is 0 for abs and the norm at the origin", function()
    assert.same({ 0, 0 }, gradient_of(function(x) return x:abs() end, { 0, 0 }))
    assert.same({ 0, 0 }, gradient_of(function(x) return x:norm() end, { 0, 0 }))
    assert.same({ 0, 0 }, gradient_of(function(x) return x:std() end, { 3, 3 }))
  end)

  it("of x^2, x^1 and x^0 at 0 is 0, 1 and 0", function()
    assert.same({ 0 }, gradient_of(function(x) return x ^ 2 end, { 0 }))
    assert.same({ 1 }, gradient_of(function(x) return x ^ 1 end, { 0 }))
    assert.same({ 0 }, gradient_of(function(x) return x ^ 0 end, { 0 }))
    local zero = ct.zeros({ 1 }, "float64")
    assert.same({ 0 }, gradient_of(function(y) return zero:pow(y) end, { 2 }))
  end)

  it("of a product with one zero is the product of the others, with two it is 0", function()
    assert.same({ 6, 0, 0 }, gradient_of(function(x) return x:prod() end, { 0, 2, 3 }))
    assert.same({ 0, 0, 0 }, gradient_of(function(x) return x:prod() end, { 0, 2, 0 }))
  end)
end)

describe("a tie", function()
  it("in max and min shares a gradient that sums to 1", function()
    assert.same({ 0.5, 0.5, 0 }, gradient_of(function(x) return x:max() end, { 2, 2, 1 }))
    assert.same({ 0, 0.25, 0.25, 0.25, 0.25 }, gradient_of(function(x) return x:min() end, { 2, 1, 1, 1, 1 }))
    assert.same({ 0.5, 0.5, 0 }, gradient_of(function(x) return (x:max(1)) end, { 2, 2, 1 }))
  end)

  it("in maximum gives each operand half", function()
    local y = ct.tensor({ 1, 5 }, { dtype = "float64" }):requires_grad_(true)
    assert.same({ 0.5, 0 }, gradient_of(function(x) return x:maximum(y) end, { 1, 2 }))
    assert.same({ 0.5, 1 }, y.grad:totable())
  end)

  it("of infinities in max is shared too", function()
    assert.same({ 0.5, 0.5 }, gradient_of(function(x) return x:max() end, { math.huge, math.huge }))
  end)
end)

describe("a value used twice", function()
  it("has both gradients added: a + a, a * a, a - a", function()
    assert.same({ 2, 2 }, gradient_of(function(x) return x + x end, { 3, 4 }))
    assert.same({ 6, 8 }, gradient_of(function(x) return x * x end, { 3, 4 }))
    assert.same({ 0, 0 }, gradient_of(function(x) return x - x end, { 3, 4 }))
  end)

  it("through a view and whole has both", function()
    assert.same({ 1, 3 }, gradient_of(function(x) return x + x[{ { 2, 2 } }]:expand(2) end, { 3, 4 }))
  end)
end)

describe("duplicate rows", function()
  -- small integers, so that every order of addition gives the same bits, and a lost one is seen
  it("of an embedding add up all of their gradients, with many elements in flight", function()
    local n, classes, width = 20000, 7, 33
    local index = ct.arange(n) % classes
    local w = ct.zeros({ classes, width }):requires_grad_(true)
    w:index_select(1, index):sum():backward()
    for class = 1, classes do
      local expected = math.floor(n / classes) + (class <= n % classes and 1 or 0)
      assert.equal(expected, w.grad[class]:min():item())
      assert.equal(expected, w.grad[class]:max():item())
    end
  end)

  it("all the same add up to their number", function()
    local w = ct.zeros({ 3, 65 }):requires_grad_(true)
    w:index_select(1, ct.ones({ 50000 }, "int64")):sum():backward()
    assert.equal(50000, w.grad[2]:min():item())
    assert.equal(0, w.grad[1]:abs():max():item())
  end)
end)

describe("an empty tensor", function()
  it("has an empty gradient", function()
    local x = ct.zeros({ 0, 3 }):requires_grad_(true);
    (x * 2):sum():backward()
    assert.same({ 0, 3 }, x.grad.shape)
  end)

  it("times an empty tensor gives zeros, whose gradients are empty", function()
    local a = ct.ones({ 3, 0 }):requires_grad_(true)
    local b = ct.ones({ 0, 4 }):requires_grad_(true)
    local c = a:matmul(b)
    assert.equal(0, c:abs():max():item())
    c:sum():backward()
    assert.same({ { 3, 0 }, { 0, 4 } }, { a.grad.shape, b.grad.shape })
  end)
end)

describe("gradients of narrow floats", function()
  it("have the dtype of what they belong to", function()
    local x = ct.ones({ 3 }, "float16"):requires_grad_(true)
    local y = ct.ones({ 3 }, "float32"):requires_grad_(true);
    (x * y):sum():backward()
    assert.same({ "float16", "float32" }, { x.grad.dtype, y.grad.dtype })
    assert.same({ 1, 1, 1 }, x.grad:totable())
  end)
end)
