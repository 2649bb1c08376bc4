-- Contractions against plain loops: 1-d to n-d, every operand layout, extents of 0, and what BLAS is particular about.
local ct = require "ctrain"
local gradient = require "spec.support.gradient"
local random = require "spec.support.random"
local reference = require "spec.support.reference"
local tensors = require "spec.support.tensors"

local nan = 0 / 0

local pairs_of_shapes = {
  { { 3 }, { 3 } }, { { 1 }, { 1 } }, { { 2, 3 }, { 3 } }, { { 3 }, { 3, 2 } }, { { 2, 3 }, { 3, 4 } },
  { { 1, 1 }, { 1, 1 } }, { { 1, 7 }, { 7, 1 } }, { { 7, 1 }, { 1, 5 } }, { { 33, 17 }, { 17, 65 } },
  { { 2, 3, 4 }, { 2, 4, 5 } }, { { 2, 3, 4 }, { 4, 5 } }, { { 3, 4 }, { 2, 4, 5 } }, { { 2, 1, 3, 4 }, { 3, 4, 2 } },
  { { 2, 3, 4 }, { 4 } }, { { 4 }, { 2, 4, 3 } }, { { 67, 131 }, { 131, 3 } },
}

describe("matmul", function()
  it("agrees with plain loops for every pair of shapes, whatever the layouts of both", function()
    local generator = random.new(81)
    for _, dtype in ipairs { "float64", "float32" } do
      for _, both in ipairs(pairs_of_shapes) do
        local a = tensors.uniform(generator, both[1], -1, 1, dtype)
        local b = tensors.uniform(generator, both[2], -1, 1, dtype)
        local expected = reference.matmul(a, b)
        local tolerance = dtype == "float64" and 1e-13 or 3e-5
        for _, la in ipairs(tensors.layouts) do
          for _, lb in ipairs(tensors.layouts) do
            tensors.close(tensors.make(a, dtype, la):matmul(tensors.make(b, dtype, lb)), expected, tolerance, tolerance,
              ("%s %s x %s %s"):format(tensors.shape_text(both[1]), la, tensors.shape_text(both[2]), lb))
          end
        end
      end
    end
  end)

  it("is exact for integers, in every integer dtype", function()
    local generator = random.new(82)
    for _, dtype in ipairs { "int32", "int64", "int16" } do
      local a, b = tensors.integers(generator, { 5, 7 }, -9, 9), tensors.integers(generator, { 7, 3 }, -9, 9)
      local out = tensors.make(a, dtype, "transposed"):matmul(tensors.make(b, dtype))
      assert.equal(dtype, out.dtype)
      tensors.equal(out, reference.matmul(a, b))
    end
  end)

  it("of narrow floats is near the float64 product", function()
    local generator = random.new(83)
    for dtype, tolerance in pairs { float16 = 2e-3, bfloat16 = 1.6e-2 } do
      for _, both in ipairs { { { 2, 3 }, { 3, 4 } }, { { 33, 40 }, { 40, 35 } }, { { 2, 5, 4 }, { 2, 4, 5 } } } do
        local a = tensors.uniform(generator, both[1], 0.5, 1, dtype)
        local b = tensors.uniform(generator, both[2], 0.5, 1, dtype)
        local out = tensors.make(a, dtype, "transposed"):matmul(tensors.make(b, dtype))
        assert.equal(dtype, out.dtype)
        tensors.close(out, reference.matmul(a, b), tolerance, tolerance)
      end
    end
  end)

  it("of extents of 0 is zeros, and has gradients", function()
    local a = ct.zeros({ 3, 0 }, "float64"):requires_grad_(true)
    local b = ct.zeros({ 0, 4 }, "float64"):requires_grad_(true)
    local out = a:matmul(b)
    tensors.equal(out, reference.array({ 3, 4 }, 0))
    out:sum():backward()
    assert.same({ 3, 0 }, a.grad.shape)
    assert.same({ 0, 4 }, b.grad.shape)
    assert.same({ 0, 4 }, ct.zeros(0, 3):matmul(ct.zeros(3, 4)).shape)
    assert.same({ 0, 2, 5 }, ct.zeros(0, 2, 3):matmul(ct.zeros(0, 3, 5)).shape)
  end)

  it("overwrites what lies in the memory it writes to, NaN included", function()
    for _ = 1, 20 do
      do
        local poisoned = ct.full({ 64, 64 }, nan) + 0
        assert.is_true(poisoned:isnan():all():item())
      end
      collectgarbage()
      tensors.equal(ct.ones(64, 64):matmul(ct.eye(64)), reference.array({ 64, 64 }, 1))
    end
  end)

  it("lets a NaN and an infinity through", function()
    local a = ct.tensor { { 1, nan }, { 0, 1 } }
    tensors.equal(a:matmul(ct.zeros(2, 2)), { shape = { 2, 2 }, nan, nan, 0, 0 })
    tensors.equal(ct.tensor { { math.huge, 1 } }:matmul(ct.ones(2, 1)), { shape = { 1, 1 }, math.huge })
  end)

  it("takes operands with strides of 0, and narrow ones of wide rows", function()
    local a = tensors.uniform(random.new(84), { 1, 40 }, -1, 1, "float32")
    local b = tensors.uniform(random.new(85), { 40, 30 }, -1, 1, "float32")
    local wide, y = tensors.make(a, "float32"):expand(35, 40), tensors.make(b, "float32")
    tensors.close(wide:matmul(y), reference.matmul(reference.expand(a, { 35, 40 }), b), 1e-5, 1e-5)
    tensors.close(wide:t():matmul(wide), reference.matmul(reference.permute(reference.expand(a, { 35, 40 }), { 2, 1 }),
      reference.expand(a, { 35, 40 })), 1e-5, 1e-5)
    tensors.close(y:narrow(2, 3, 7):t():matmul(y:narrow(2, 11, 1)), reference.matmul(
      reference.gather(b, { 7, 40 }, function(i) return { i[2], i[1] + 2 } end),
      reference.gather(b, { 40, 1 }, function(i) return { i[1], 10 } end)), 1e-5, 1e-5)
  end)

  it("has the gradients that differences give, batches broadcast", function()
    local generator = random.new(86)
    for _, both in ipairs(pairs_of_shapes) do
      if reference.count(both[1]) * reference.count(both[2]) < 1000 then
        for _, layout in ipairs { "contiguous", "transposed" } do
          gradient.check(function(x, y) return x:matmul(y) end,
            { tensors.uniform(generator, both[1], -1, 1), tensors.uniform(generator, both[2], -1, 1) },
            { layout = layout, tolerance = 1e-6 })
        end
      end
    end
  end)

  it("repeats its bits", function()
    local generator = random.new(87)
    local x = tensors.make(tensors.uniform(generator, { 130, 257 }, -1, 1, "float32"), "float32")
    local y = tensors.make(tensors.uniform(generator, { 257, 90 }, -1, 1, "float32"), "float32")
    local first = x:matmul(y)
    for _ = 1, 5 do tensors.identical(x:matmul(y), first) end
  end)

  it("mm and bmm take matrices and batches of them alone", function()
    assert.same({ { 11 } }, ct.tensor { { 1, 2 } }:mm(ct.tensor { { 3 }, { 4 } }):totable())
    assert.same({ { { 11 } } }, ct.tensor { { { 1, 2 } } }:bmm(ct.tensor { { { 3 }, { 4 } } }):totable())
    assert.has_error(function() ct.ones(3):mm(ct.ones(3)) end)
    assert.has_error(function() ct.ones(2, 2):bmm(ct.ones(2, 2)) end)
  end)
end)

describe("dot, outer and einsum", function()
  it("dot multiplies and adds", function()
    assert.equal(32, ct.tensor { 1, 2, 3 }:dot(ct.tensor { 4, 5, 6 }):item())
    gradient.check(function(x, y) return x:dot(y) end, { { shape = { 3 }, 1, 2, 3 }, { shape = { 3 }, 4, 5, 6 } })
  end)

  it("outer gives every product", function()
    assert.same({ { 3, 4 }, { 6, 8 } }, ct.tensor { 1, 2 }:outer(ct.tensor { 3, 4 }):totable())
  end)

  local equations = {
    { "ij,jk->ik", { 2, 3 }, { 3, 4 }, function(a, b) return reference.matmul(a, b) end },
    { "ij,jk->ki", { 2, 3 }, { 3, 4 }, function(a, b)
      return reference.permute(reference.matmul(a, b), { 2, 1 })
    end },
    { "ij,kj->ik", { 2, 3 }, { 4, 3 }, function(a, b)
      return reference.matmul(a, reference.permute(b, { 2, 1 }))
    end },
    { "bij,bjk->bik", { 2, 3, 4 }, { 2, 4, 2 }, reference.matmul },
    { "i,i->", { 5 }, { 5 }, reference.matmul },
    { "i,j->ij", { 3 }, { 2 }, function(a, b)
      return reference.matmul(reference.reshape(a, { 3, 1 }), reference.reshape(b, { 1, 2 }))
    end },
    { "ij,ij->ij", { 2, 3 }, { 2, 3 }, function(a, b)
      return reference.zip(a, b, function(x, y) return x * y end)
    end },
    { "ij,j->i", { 2, 3 }, { 3 }, reference.matmul },
  }
  for _, case in ipairs(equations) do
    it(("einsum '%s' agrees with plain loops and has gradients"):format(case[1]), function()
      local generator = random.new(88)
      local a, b = tensors.uniform(generator, case[2], -1, 1), tensors.uniform(generator, case[3], -1, 1)
      tensors.close(ct.einsum(case[1], tensors.make(a), tensors.make(b)), case[4](a, b), 1e-13, 1e-14)
      gradient.check(function(x, y) return ct.einsum(case[1], x, y) end, { a, b }, { tolerance = 1e-6 })
    end)
  end
end)
