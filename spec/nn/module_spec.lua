-- Modules: parameters found by attribute, names, state, modes, printing; containers; initial values.
local ct = require "ctrain"
local tensors = require "spec.support.tensors"

local nn = ct.nn

local function model()
  return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
end

local function names(m)
  local list = {}
  for name in m:named_parameters() do list[#list + 1] = name end
  return list
end

describe("a module", function()
  it("finds parameters by attribute, in the order of definition, by dotted names", function()
    local list = names(model())
    assert.equal(4, #list)
    local set = {}
    for _, name in ipairs(list) do set[name] = true end
    assert.equal(4, (function() local n = 0 for _ in pairs(set) do n = n + 1 end return n end)())
    for _, name in ipairs(list) do assert.is_truthy(name:match("^%d+%.%a+$"), name) end
  end)

  it("is called as its forward", function()
    local m = model()
    local x = ct.rand(5, 4)
    tensors.identical(m(x), m:forward(x))
    assert.same({ 5, 3 }, m(x).shape)
  end)

  it("gives a state that another of its kind loads, and computes the same with", function()
    local a, b = model(), model()
    local x = ct.rand(5, 4)
    b:load_state_dict(a:state_dict())
    tensors.identical(a(x), b(x))
  end)

  it("refuses a state with missing or unexpected names, by name, and changes nothing", function()
    local a, b = model(), model()
    local x = ct.rand(5, 4)
    local before = b(x)
    local state = a:state_dict()
    local gone = next(state)
    state[gone] = nil
    state.stranger = ct.zeros(1)
    local ok, message = pcall(b.load_state_dict, b, state)
    assert.is_false(ok)
    assert.is_truthy(message:find("stranger", 1, true), message)
    assert.is_truthy(message:find(gone, 1, true), message)
    tensors.identical(b(x), before)
  end)

  it("loads what fits when not strict", function()
    local a, b = model(), model()
    local state = a:state_dict()
    state.stranger = ct.zeros(1)
    b:load_state_dict(state, false)
    local x = ct.rand(2, 4)
    tensors.identical(a(x), b(x))
  end)

  it("refuses a state whose shapes differ, naming both", function()
    local ok, message = pcall(function()
      nn.Linear(4, 8):load_state_dict(nn.Linear(4, 9):state_dict())
    end)
    assert.is_false(ok)
    assert.is_truthy(message:find("8x4", 1, true) and message:find("9x4", 1, true), message)
  end)

  it("passes train and eval on to all below", function()
    local m = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(0.5)))
    assert.is_true(m.training)
    m:eval()
    local x = ct.ones(64, 2)
    tensors.identical(m(x), m(x))
    m:train()
    assert.is_true(m.training)
  end)

  it("draws its tree with the number of parameters", function()
    local text = tostring(model())
    assert.is_truthy(text:find("Linear", 1, true))
    assert.is_truthy(text:find("ReLU", 1, true))
    assert.is_truthy(text:find("67", 1, true), text) -- 4 * 8 + 8 + 8 * 3 + 3
  end)

  it("of one's own registers what is assigned to it", function()
    local Net = nn.class and nn.class("Net") or nil
    assert.is_not_nil(Net)
    function Net:init()
      self.first = nn.Linear(3, 2)
      self.scale = nn.Parameter(ct.ones(2))
    end
    function Net:forward(x) return self.first(x) * self.scale end
    local net = Net()
    local list = names(net)
    table.sort(list)
    assert.same({ "first.bias", "first.weight", "scale" }, list)
    assert.same({ 7, 2 }, net(ct.rand(7, 3)).shape)
  end)
end)

describe("layers", function()
  it("Dropout keeps the mean, scales what it keeps, and does nothing in eval", function()
    ct.manual_seed(3)
    local layer = nn.Dropout(0.25)
    local x = ct.ones(10000)
    local out = layer(x)
    local kept = out:gt(0):sum():item()
    assert.is_true(kept > 7200 and kept < 7800)
    tensors.close(out:amax(), { shape = {}, 1 / 0.75 }, 1e-6)
    layer:eval()
    tensors.identical(layer(x), x)
  end)

  it("Linear and Embedding begin as PyTorch's do", function()
    ct.manual_seed(4)
    local linear = nn.Linear(100, 400)
    local bound = 0.1
    assert.is_true(linear.weight:abs():amax():item() <= bound)
    assert.is_true(linear.bias:abs():amax():item() <= bound)
    assert.is_true(math.abs(linear.weight:std():item() - bound / math.sqrt(3)) < 2e-3)
    local embedding = nn.Embedding(300, 100)
    assert.is_true(math.abs(embedding.weight:std():item() - 1) < 0.02)
    local norm = nn.LayerNorm(7)
    assert.same({ 1, 1, 1, 1, 1, 1, 1 }, norm.weight:totable())
    assert.same({ 0, 0, 0, 0, 0, 0, 0 }, norm.bias:totable())
  end)

  it("Embedding adds the gradients of rows taken more than once", function()
    local embedding = nn.Embedding(4, 2)
    local index = ct.tensor({ 1, 1, 1, 3 }, { dtype = "int64" })
    embedding(index):sum():backward()
    assert.same({ { 0, 0 }, { 3, 3 }, { 0, 0 }, { 1, 1 } }, embedding.weight.grad:totable())
  end)

  it("Flatten keeps the batch", function()
    assert.same({ 2, 12 }, nn.Flatten()(ct.zeros(2, 3, 4)).shape)
  end)
end)
