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
