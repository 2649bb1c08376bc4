-- Models under ct.trace: the eager step's bits, modes, dropout, batch norm's statistics.
local ct = require "ctrain"
local modes = require "spec.support.modes"
local tensors = require "spec.support.tensors"

local nn, F = ct.nn, ct.nn.functional

local function eager(body) return body end

local function traced(body) return ct.trace(body, { compile = false }) end

-- The losses and the parameters after some steps of a model, all from one seed.
local function train(make, inputs, labels, mode)
  ct.manual_seed(11)
  local model = make()
  local optimizer = ct.optim.AdamW(model:parameters(), { lr = 1e-2 })
  local step = mode(function(x, y)
    optimizer:zero_grad()
    local loss = F.cross_entropy(model(x), y)
    loss:backward()
    optimizer:step()
    return loss
  end)
  local losses = {}
  for i = 1, 5 do losses[i] = step(inputs, labels) end
  return losses, model:state_dict()
end

local Attending = nn.class "Attending"

function Attending:init(dropout)
  self.embed = nn.Embedding(7, 8)
  self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout, { batch_first = true })
  self.head = nn.Linear(8, 3)
end

function Attending:forward(ids) return self.head(self.layer(self.embed(ids)):mean(2)) end

local labels = ct.tensor({ 0, 2, 1, 1 }, { dtype = "int64" })
local images = ct.rand(4, 3, 4, 4)
local cases = {
  { "a perceptron", function() return nn.Sequential(nn.Flatten(), nn.Linear(48, 9), nn.ReLU(), nn.Linear(9, 3)) end,
    images },
  { "one with dropout", function()
    return nn.Sequential(nn.Flatten(), nn.Linear(48, 9), nn.GELU(), nn.Dropout(0.4), nn.Linear(9, 3))
  end, images },
  { "norms", function()
    return nn.Sequential(nn.BatchNorm2d(3), nn.GroupNorm(3, 3), nn.Flatten(), nn.LayerNorm(48), nn.RMSNorm(48),
      nn.Linear(48, 3))
  end, images },
  { "a transformer with dropout", function() return Attending(0.1) end,
    ct.tensor({ { 0, 1, 2 }, { 6, 5, 4 }, { 3, 3, 3 }, { 1, 0, 6 } }, { dtype = "int64" }) },
}

local function agrees(case, mode)
  local eager_losses, eager_state = train(case[2], case[3], labels, eager)
  local losses, state = train(case[2], case[3], labels, mode)
  for i = 1, 5 do tensors.identical(losses[i], eager_losses[i], "loss " .. i) end
  for name, value in pairs(eager_state) do tensors.identical(state[name], value, name) end
end

describe("five traced training steps have the bits of the eager ones:", function()
  for _, case in ipairs(cases) do
    it(case[1], function() agrees(case, traced) end)
  end
  it("a perceptron with dropout, compiled", function() agrees(cases[2], modes.compiled) end)
  it("norms, compiled", function() agrees(cases[3], modes.compiled) end)
end)

describe("a traced model", function()
  it("drops other elements at each step, and the same ones after the same seed", function()
    local dropout = nn.Dropout(0.5)
    local step = ct.trace(function(x) return dropout(x) end, { compile = false })
    local x = ct.ones(64)
    ct.manual_seed(2)
    local first, second = step(x), step(x)
    assert.is_false(first:eq(second):all():item())
    ct.manual_seed(2)
    tensors.identical(step(x), first)
    tensors.identical(step(x), second)
  end)

  it("obeys eval and train without being traced anew by hand", function()
    local dropout = nn.Dropout(0.5)
    local step = ct.trace(function(x) return dropout(x) end, { compile = false })
    local x = ct.ones(64)
    assert.is_false(step(x):eq(x):all():item())
    dropout:eval()
    tensors.identical(step(x), x)
    dropout:train()
    assert.is_false(step(x):eq(x):all():item())
  end)

  it("takes a short last batch", function()
    local net = nn.Linear(3, 2)
    local step = ct.trace(function(x) return net(x):sum() end, { compile = false })
    for _, rows in ipairs { 4, 4, 4, 1, 4 } do
      local x = ct.rand(rows, 3)
      tensors.identical(step(x), net(x):sum())
    end
  end)

  it("accumulates gradients over steps that do not clear them", function()
    local p = nn.Parameter(ct.ones(2))
    local step = ct.trace(function(x) (p * x):sum():backward() end, { compile = false })
    local expected = 0
    for i = 1, 5 do
      step(ct.full({ 2 }, i))
      expected = expected + i
      assert.same({ expected, expected }, p.grad:totable())
    end
  end)

  it("that looks at a value is told the op, the line and the remedy", function()
    local net = nn.Linear(2, 2)
    local step = ct.trace(function(x)
      local y = net(x)
      if y:sum():item() > 0 then y = -y end
      return y
    end)
    local ok, message = pcall(step, ct.ones(1, 2))
    assert.is_false(ok)
    assert.is_truthy(message:find("traced_spec.lua:%d+:"), message)
    assert.is_truthy(message:find("sum", 1, true), message)
    assert.is_truthy(message:find("step_closure", 1, true), message)
  end)
end)

describe("accumulation of two halves", function()
  it("weighted by their samples equals the whole batch", function()
    local model = nn.Linear(5, 3):double()
    local x = ct.rand(7, 5):double()
    local y = ct.tensor({ 0, 1, 2, 0, 1, 2, 0 }, { dtype = "int64" })
    F.cross_entropy(model(x), y):backward()
    local whole = model.weight.grad:clone()
    model:zero_grad()
    for _, part in ipairs { { 1, 5 }, { 6, 2 } } do
      local from, count = part[1], part[2]
      local loss = F.cross_entropy(model(x:narrow(1, from, count)), y:narrow(1, from, count))
      loss:mul(count / 7):backward()
    end
    tensors.close(model.weight.grad, tensors.read(whole), 1e-12, 1e-15)
  end)
end)

describe("layers keep large and odd inputs finite:", function()
  it("cross entropy of equal logits of 1e8 is log 2", function()
    local logits = ct.tensor { { 1e8, 1e8 } }:requires_grad_(true)
    local loss = F.cross_entropy(logits, ct.tensor({ 0 }, { dtype = "int64" }))
    tensors.close(loss, { shape = {}, math.log(2) }, 1e-6)
    loss:backward()
    tensors.close(logits.grad, { shape = { 1, 2 }, -0.5, 0.5 }, 1e-6)
  end)

  it("bce_with_logits at 1e4 has a loss and a gradient", function()
    local x = ct.tensor { 1e4, -1e4 }:requires_grad_(true)
    local loss = F.binary_cross_entropy_with_logits(x, ct.tensor { 0, 1 })
    assert.equal(1e4, loss:item())
    loss:backward()
    assert.same({ 0.5, -0.5 }, x.grad:totable())
  end)

  it("layer norm at mean 1e4 and deviation 1e-2 in float32", function()
    local row = {}
    for i = 1, 64 do row[i] = 1e4 + (i % 2 == 0 and 1 or -1) / 128 end
    local y = nn.LayerNorm(64, { eps = 0 })(ct.tensor { row })
    tensors.close(y:abs(), tensors.read(ct.ones(1, 64)), 1e-3)
  end)

  it("elu and softplus of 1e4 have gradients without NaN", function()
    for _, f in ipairs { F.elu, F.softplus, F.logsigmoid, F.mish } do
      local x = ct.tensor { 1e4, -1e4 }:requires_grad_(true)
      f(x):sum():backward()
      for _, g in ipairs(x.grad:totable()) do assert.is_true(g == g and math.abs(g) <= 1) end
    end
  end)

  it("softmax of a row of -inf but one is that one", function()
    assert.same({ 0, 1, 0 }, ct.tensor { -math.huge, 3, -math.huge }:softmax(1):totable())
  end)

  it("a batch of none goes through every layer", function()
    local model = nn.Sequential(nn.Flatten(), nn.Linear(12, 4), nn.LayerNorm(4), nn.GELU(), nn.Dropout(0.5))
    local out = model(ct.zeros(0, 3, 4))
    assert.same({ 0, 4 }, out.shape)
    out:sum():backward()
    assert.equal(0, model[2].weight.grad:abs():sum():item())
  end)
end)

describe("Embedding with padding_idx", function()
  it("starts at zero there and gets no gradient", function()
    local embedding = nn.Embedding(3, 2, { padding_idx = 1 })
    assert.same({ 0, 0 }, embedding.weight:detach()[2]:totable())
    embedding(ct.tensor({ 1, 2, 1 }, { dtype = "int64" })):sum():backward()
    assert.same({ { 0, 0 }, { 0, 0 }, { 1, 1 } }, embedding.weight.grad:totable())
  end)
end)

describe("ignored labels", function()
  it("of all samples give a mean of NaN and gradients of none", function()
    local logits = ct.rand(2, 3):requires_grad_(true)
    local all = ct.full({ 2 }, -100, { dtype = "int64" })
    local loss = F.cross_entropy(logits, all, { reduction = "sum" })
    loss:backward()
    assert.equal(0, loss:item())
    assert.equal(0, logits.grad:abs():sum():item())
    local mean = F.cross_entropy(logits, all):item()
    assert.is_true(mean ~= mean)
  end)
end)
