-- pad, cat, stack, split, chunk, roll, triangles, repeat, einsum and its kin: at their limits, with what wrong
-- arguments are told, and in traced steps. Their plain values and gradients are in spec/eager.
local ct = require "ctrain"
local modes = require "spec.support.modes"
local random = require "spec.support.random"
local reference = require "spec.support.reference"
local tensors = require "spec.support.tensors"

local function fails(f, ...)
  local ok, message = pcall(f)
  assert.is_false(ok)
  for _, part in ipairs { ... } do
    assert.is_truthy(tostring(message):find(part, 1, true), tostring(message))
  end
end

describe("pad", function()
  it("names the last dimension first, and removes what is negative", function()
    local t = ct.tensor { { 1, 2, 3 }, { 4, 5, 6 } }
    assert.same({ { 0, 0, 0 }, { 0, 1, 2 }, { 0, 4, 5 } }, t:pad({ 1, -1, 1, 0 }):totable())
    assert.same({ { 2 }, { 5 } }, t:pad({ -1, -1 }):totable())
  end)

  it("of an empty tensor is the value, in the tensor's dtype", function()
    local result = ct.zeros({ 0, 2 }, "int16"):pad({ 0, 0, 1, 1 }, 7)
    assert.same({ { 7, 7 }, { 7, 7 } }, result:totable())
    assert.equal("int16", result.dtype)
  end)

  it("by nothing is a copy", function()
    local t = ct.ones(2)
    t:pad({ 0, 0 }):fill_(5)
    assert.same({ 1, 1 }, t:totable())
  end)

  it("refuses odd lists, fractions, and to remove more than there is", function()
    local t = ct.zeros(2, 3)
    fails(function() return t:pad({ 1 }) end, "pad", "two amounts a dimension", "2x3")
    fails(function() return t:pad({ 1.5, 0 }) end, "pad", "whole number, not 1.5")
    fails(function() return t:pad({ -2, -2 }) end, "pad", "dim 2", "3 elements")
  end)
end)

describe("cat and stack", function()
  it("take empty tensors among others", function()
    assert.same({ { 1, 1 } }, ct.cat({ ct.zeros(0, 2), ct.ones(1, 2), ct.zeros(0, 2) }, 1):totable())
    assert.same({ 0, 4 }, ct.cat({ ct.zeros(0, 2), ct.ones(0, 2) }, 2).shape)
  end)

  it("of no elements and one dimension continues a tensor of any shape", function()
    assert.same({ { 1, 1 }, { 1, 1 } }, ct.cat({ ct.zeros(0), ct.ones(2, 2), ct.zeros(0) }, 1):totable())
    assert.same({ { 1, 1 }, { 1, 1 } }, ct.cat({ ct.zeros(0), ct.ones(2, 2) }, 2):totable())
    assert.same({ 0 }, ct.cat({ ct.zeros(0), ct.zeros(0) }, 1).shape)
    assert.same({ 3 }, ct.cat({ ct.zeros({ 0 }, "float64"), ct.arange(3) }, 1).shape)
  end)

  it("promote dtypes", function()
    assert.equal("float16", ct.cat({ ct.ones({ 1 }, "int32"), ct.ones({ 1 }, "float16") }, 1).dtype)
    assert.equal("float32", ct.stack({ ct.ones({ 1 }, "bfloat16"), ct.ones({ 1 }, "float16") }).dtype)
  end)

  it("stack joins 0-d tensors to a vector", function()
    assert.same({ 1, 2 }, ct.stack({ ct.tensor(1), ct.tensor(2) }):totable())
  end)

  it("name the tensor that does not fit", function()
    fails(function() return ct.cat({ ct.zeros(2, 3), ct.zeros(2, 4) }, 1) end, "cat", "tensors[2]", "2x4", "2x3")
    fails(function() return ct.cat({ ct.zeros(2), 3 }, 1) end, "tensors[2]", "number 3")
    fails(function() return ct.cat({}) end, "cat", "empty")
    fails(function() return ct.stack({ ct.zeros(2), ct.zeros(3) }) end, "stack", "list[2] is 3", "list[1] is 2")
    fails(function() return ct.stack({}) end, "stack", "at least one")
  end)
end)

describe("split and chunk", function()
  local function extents(pieces)
    local list = {}
    for i, piece in ipairs(pieces) do list[i] = piece.shape[1] end
    return list
  end

  it("give a smaller last piece", function()
    assert.same({ 3, 3, 1 }, extents(ct.zeros(7):split(3)))
    assert.same({ 3, 3, 1 }, extents(ct.zeros(7):chunk(3)))
  end)

  it("give fewer pieces where there are fewer elements, and one of an empty tensor", function()
    assert.same({ 2, 2, 2, 1 }, extents(ct.zeros(7):chunk(5)))
    assert.same({ 0 }, extents(ct.zeros(0):split(2)))
  end)

  it("give views: writing to a piece writes to the whole", function()
    local t = ct.zeros(4)
    t:split(2)[2]:fill_(5)
    assert.same({ 0, 0, 5, 5 }, t:totable())
  end)

  it("refuse sizes that do not add up, and 0", function()
    local t = ct.zeros(7)
    fails(function() return t:split({ 3, 3 }) end, "split", "3, 3", "7")
    fails(function() return t:split({ 3, 5 }) end, "split", "3, 5", "7")
    fails(function() return t:split(0) end, "split: size is 0")
    fails(function() return t:chunk(0) end, "chunk: count is 0")
  end)
end)

describe("roll", function()
  it("by more than the extent, and by negative counts, goes around", function()
    local t = ct.arange(5)
    assert.same({ 3, 4, 0, 1, 2 }, t:roll(7, 1):totable())
    assert.same({ 1, 2, 3, 4, 0 }, t:roll(-6, 1):totable())
  end)

  it("along two dimensions at once moves in both", function()
    assert.same({ { 5, 3, 4 }, { 2, 0, 1 } }, ct.arange(6):reshape(2, 3):roll({ 1, 1 }, { 1, 2 }):totable())
  end)

  it("of an empty tensor is empty; shifts and dims must be as many", function()
    assert.same({ 0, 3 }, ct.zeros(0, 3):roll(2, 1).shape)
    fails(function() return ct.zeros(2, 3):roll({ 1, 2 }, { 1 }) end, "roll", "2 shifts and 1 dims")
  end)
end)

describe("tril and triu", function()
  it("take each matrix of a batch, and diagonals beyond the corners", function()
    local t = ct.ones(2, 2, 3)
    assert.same({ { 1, 0, 0 }, { 1, 1, 0 } }, t:tril()[2]:totable())
    assert.same({ { 0, 1, 1 }, { 0, 0, 1 } }, t:triu(1)[2]:totable())
    assert.equal(0, t:tril(-2):sum():item())
    assert.equal(12, t:tril(2):sum():item())
  end)

  it("drop NaN and infinities instead of multiplying them by 0", function()
    assert.same({ { 1, 0 }, { 1, 1 } }, ct.tensor({ { 1, 0 / 0 }, { 1, 1 } }):tril():totable())
    assert.same({ { 1, 1 }, { 0, 1 } }, ct.tensor({ { 1, 1 }, { -math.huge, 1 } }):triu():totable())
  end)

  it("need two dimensions", function()
    fails(function() return ct.zeros(3):tril() end, "tril", "at least 2 dimensions", "3")
  end)
end)

describe("repeat and tile", function()
  it("by 0 leave nothing, by more counts than dimensions add some", function()
    local t = ct.tensor { 1, 2 }
    assert.same({ 0 }, t["repeat"](t, 0).shape)
    assert.same({ { 1, 2, 1, 2 }, { 1, 2, 1, 2 } }, t["repeat"](t, 2, 2):totable())
    assert.same({ { 1, 1 }, { 2, 2 } }, ct.tensor({ { 1 }, { 2 } }):tile(2):totable())
  end)

  it("repeat needs a count for each dimension", function()
    local t = ct.zeros(2, 3)
    fails(function() return t["repeat"](t, 2) end, "repeat", "1 counts", "2x3")
  end)
end)

describe("einsum", function()
  it("of one operand transposes, takes diagonals and traces, and sums", function()
    local t = ct.tensor { { 1, 2 }, { 3, 4 } }
    assert.same({ { 1, 3 }, { 2, 4 } }, ct.einsum("ij->ji", t):totable())
    assert.same({ 1, 4 }, ct.einsum("ii->i", t):totable())
    assert.equal(5, ct.einsum("ii", t):item())
    assert.equal(10, ct.einsum("ij->", t):item())
  end)

  it("takes an ellipsis for the dimensions of a batch", function()
    local a, b = tensors.uniform(random.new(1), { 4, 2, 3 }, -1, 1), tensors.uniform(random.new(2), { 4, 3, 5 }, -1, 1)
    local result = ct.einsum("...ij,...jk->...ik", tensors.make(a), tensors.make(b))
    tensors.close(result, reference.matmul(a, b), 1e-14, 1e-15)
  end)

  it("of extents of 0 sums to zeros", function()
    assert.same({ { 0, 0 } }, ct.einsum("ij,jk->ik", ct.ones(1, 0), ct.ones(0, 2)):totable())
  end)

  it("names the letter, the operand and the extents that do not agree", function()
    local a, b = ct.zeros(2, 3), ct.zeros(4, 5)
    fails(function() return ct.einsum("ij,jk->ik", a, b) end, "'j' is 3 in operand 1 (2x3) and 4 in operand 2 (4x5)")
    fails(function() return ct.einsum("ij->iz", a) end, "'z' is in the result of 'ij->iz' only")
    fails(function() return ct.einsum("ijk", a) end, "operand 1 is 2x3, but 'ijk' names 3 dimensions")
    fails(function() return ct.einsum("ij,jk", a) end, "names 2 operands, got 1")
  end)

  it("dot and outer take vectors alone", function()
    fails(function() return ct.zeros(2):dot(ct.zeros(3)) end, "dot", "got 2 and 3")
    fails(function() return ct.zeros(2, 2):outer(ct.zeros(2)) end, "outer", "got 2x2 and 2")
  end)
end)

-- Everything here and in compositions_spec.lua, of one tensor (3, 8) and one of rows.
local function everything(x, index)
  return {
    x:softmax(2), x:log_softmax(1), x:logsumexp({ 1, 2 }), x:var(2), x:std(), x:norm(3, 1), x:norm(),
    x:clamp(-0.5, 0.5), x:lerp(x:flip(1), 0.3), x:masked_fill(x:gt(0), 7), x:pad({ 1, 2, -1, 0 }, 3),
    ct.cat({ x, x:flip(2) }, 1), ct.stack({ x, x * 2 }, 2), x:split(3, 2)[2] * 2, x:chunk(3, 2)[3] * 2,
    x:roll({ 1, -2 }, { 1, 2 }), x:tril(1), x:triu(-1), x["repeat"](x, 2, 2), ct.einsum("ij,kj->ik", x, x),
    x[1]:outer(x[2]), x[1]:dot(x[2]), (x:sort(2)), (x:topk(2, 1)), x:index_select(2, index), index:one_hot(8),
    x:cumsum(2), x:mean(1), x:prod(2), (x:max(2)),
  }
end

for _, mode in ipairs { "replayed", "compiled" } do
  describe("a traced step, " .. mode, function()
    it("has the bits of eager code for all of these", function()
      local step = mode == "compiled" and modes.compiled(everything) or ct.trace(everything, { compile = false })
      local index = ct.tensor({ 7, 0, 7 }, { dtype = "int64" })
      for call = 1, 3 do
        local a = tensors.uniform(random.new(call), { 3, 8 }, -2, 2, "float32")
        local expected, got = everything(tensors.make(a, "float32"), index), step(tensors.make(a, "float32"), index)
        assert.equal(#expected, #got)
        for i, t in ipairs(expected) do tensors.identical(got[i], t, "result " .. i .. " of call " .. call) end
      end
    end)
  end)
end
