-- Creation and initialisation cost nothing until the tensor is read: a model may be larger than the machine.
local ct = require "ctrain"

local huge = { 200000, 200000 } -- 160 GB of float32

describe("a tensor that was only filled", function()
  it("takes no memory, whatever filled it", function()
    local before = ct.live_bytes()
    local kept = {
      ct.zeros(huge), ct.rand(huge), ct.randn(huge, { dtype = "float64" }), ct.zeros(huge):uniform_(-0.1, 0.1),
      ct.zeros(huge):normal_(1, 2), ct.rand(huge):to("bfloat16"), ct.randn(huge):clone(),
    }
    ct.no_grad(function()
      local table_of_rows = ct.zeros(huge):normal_()
      table_of_rows[1] = 0
      kept[#kept + 1] = table_of_rows
    end)
    kept[#kept + 1] = ct.nn.Linear(200000, 200000)
    kept[#kept + 1] = ct.nn.Embedding(200000, 200000, { padding_idx = 0 })
    assert.is_true(ct.live_bytes() - before < 1e6)
  end)

  it("holds the numbers of the draw that was next when it was filled", function()
    ct.manual_seed(3)
    local a = ct.zeros(5):uniform_(-2, 6)
    local b = ct.rand(5)
    ct.manual_seed(3)
    local c, d = ct.rand(5), ct.rand(5)
    assert.same(d:totable(), b:totable())
    assert.same((c * 8 - 2):totable(), a:totable())
  end)

  it("rounds a scaled draw after each step, in every floating type", function()
    for _, dtype in ipairs { "float16", "bfloat16", "float32", "float64" } do
      ct.manual_seed(5)
      local a = ct.zeros(3000, dtype):normal_(0.3, 1.7)
      ct.manual_seed(5)
      assert.same((ct.randn(3000, dtype) * 1.7 + 0.3):totable(), a:totable())
    end
  end)

  it("keeps a part that was written before it was read", function()
    ct.manual_seed(9)
    local whole = ct.rand(4, 3)
    ct.manual_seed(9)
    local part = ct.rand(4, 3)
    local before = part:clone()
    part[2] = 7
    part[3] = 8
    assert.same({ 7, 7, 7 }, part[2]:totable())
    assert.same({ 8, 8, 8 }, part[3]:totable())
    assert.same(whole[4]:totable(), part[4]:totable())
    assert.same(whole:totable(), before:totable())
  end)
end)
