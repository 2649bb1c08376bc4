-- Optimizers, clipping and a whole training run against PyTorch's figures.
local ct = require "ctrain"
local fixtures = require "spec.support.fixtures"
local random = require "spec.support.random"
local reference = require "spec.support.reference"
local tensors = require "spec.support.tensors"

local F = ct.nn.functional
local recorded = fixtures.load("optimizers")

local kinds = {
  sgd = "SGD", sgd_momentum = "SGD", sgd_dampening = "SGD", sgd_nesterov = "SGD", sgd_weight_decay = "SGD",
  adam = "Adam", adam_weight_decay = "Adam", adamw = "AdamW", adamw_decay = "AdamW",
}

-- The problem of make_fixtures.py: ten steps on a small tanh regression.
local function problem(seed)
  local g = random.new(seed)
  local function draw(shape) return tensors.make(tensors.uniform(g, shape, -1, 1)) end
  local w, b = draw({ 3, 4 }):clone():requires_grad_(true), draw({ 3 }):clone():requires_grad_(true)
  return w, b, draw({ 6, 4 }), draw({ 6, 3 })
end

local function expect(w, b, values, step)
  local all = ct.cat({ w:detach():reshape(12), b:detach() }, 1)
  tensors.close(all, reference.array({ 15 }, values), 1e-9, 1e-12, "step " .. step)
end

describe("ten steps in float64 agree with PyTorch's to 1e-9:", function()
  for name, kind in pairs(kinds) do
    for _, traced in ipairs { false, true } do
      it(name:gsub("_", " ") .. (traced and ", traced" or ", eager"), function()
        local w, b, x, y = problem(41)
        local optimizer = ct.optim[kind]({ w, b }, recorded[name].options)
        local function body()
          optimizer:zero_grad()
          local loss = F.mse_loss(F.linear(x, w, b):tanh(), y)
          loss:backward()
          optimizer:step()
          return loss
        end
        local step = traced and ct.trace(body) or body
        for i = 1, 10 do
          step()
          expect(w, b, recorded[name].steps[i], i)
        end
      end)
    end
  end

  it("groups with settings of their own", function()
    local w, b, x, y = problem(42)
    local optimizer = ct.optim.SGD({ { params = { w }, lr = 0.2 }, { params = { b }, weight_decay = 0.5 } },
      { lr = 0.05, momentum = 0.5 })
    for i = 1, 10 do
      optimizer:zero_grad()
      F.mse_loss(F.linear(x, w, b):tanh(), y):backward()
      optimizer:step()
      expect(w, b, recorded.groups.steps[i], i)
    end
  end)
end)

describe("an optimizer", function()
  it("goes on from a saved state as if it had not stopped", function()
    local function run(steps, optimizer, w, b, x, y)
      for _ = 1, steps do
        optimizer:zero_grad()
        F.mse_loss(F.linear(x, w, b):tanh(), y):backward()
        optimizer:step()
      end
    end
    for _, kind in ipairs { "SGD", "Adam", "AdamW" } do
      local options = kind == "SGD" and { lr = 0.1, momentum = 0.9 } or { lr = 0.1 }
      local w, b, x, y = problem(44)
      local whole = ct.optim[kind]({ w, b }, options)
      run(4, whole, w, b, x, y)
      local w2, b2 = w:detach():clone():requires_grad_(true), b:detach():clone():requires_grad_(true)
      local second = ct.optim[kind]({ w2, b2 }, options)
      second:load_state_dict(whole:state_dict())
      run(4, whole, w, b, x, y)
      run(4, second, w2, b2, x, y)
      tensors.identical(w:detach(), w2:detach(), kind)
      tensors.identical(b:detach(), b2:detach(), kind)
    end
  end)

  it("leaves a parameter without a gradient alone", function()
    local w = ct.ones({ 2 }):clone():requires_grad_(true)
    local still = ct.ones({ 2 }):clone():requires_grad_(true)
    local optimizer = ct.optim.SGD({ w, still }, { lr = 0.5, weight_decay = 0.1 })
    w:sum():backward()
    optimizer:step()
    assert.same({ 1, 1 }, still:detach():totable())
    assert.is_true(w:detach()[1]:item() < 1)
  end)

  it("refuses negative learning rates and unknown options by name", function()
    local w = ct.ones({ 2 }):clone():requires_grad_(true)
    local ok, message = pcall(ct.optim.SGD, { w }, { lr = -1 })
    assert.is_false(ok)
    assert.is_truthy(message:find("lr", 1, true), message)
    ok, message = pcall(ct.optim.SGD, { w }, { lr = 1, momentun = 0.9 })
    assert.is_false(ok)
    assert.is_truthy(message:find("'momentum'", 1, true), message)
  end)
end)

describe("clip_grad_norm_ agrees with PyTorch", function()
  for name, norm_type in pairs { clip_1 = 1, clip_2 = 2, clip_max = math.huge } do
    it(("for the norm of order %s"):format(norm_type), function()
      local g = random.new(43)
      local function draw(shape, low, high) return tensors.make(tensors.uniform(g, shape, low, high)) end
      local a, b = draw({ 3, 4 }, -1, 1):clone():requires_grad_(true), draw({ 5 }, -1, 1):clone():requires_grad_(true)
      a.grad = draw({ 3, 4 }, -3, 3)
      b.grad = draw({ 5 }, -3, 3)
      local total = ct.nn.utils.clip_grad_norm_({ a, b }, 1.5, norm_type)
      tensors.close(total, { shape = {}, recorded[name].total }, 1e-12)
      tensors.close(a.grad, fixtures.array(recorded[name].gradients[1]), 1e-12)
      tensors.close(b.grad, fixtures.array(recorded[name].gradients[2]), 1e-12)
    end)
  end
end)

describe("twenty steps of the mlp workload", function()
  local losses = fixtures.load("mlp")

  local function run(dtype, traced)
    local g = random.new(9)
    local widths, layers = { 784, 1024, 1024, 10 }, {}
    local model
    ct.no_grad(function()
      for i = 1, 3 do
        local fan_in, fan_out = widths[i], widths[i + 1]
        local bound = (6 / fan_in) ^ 0.5
        local linear = ct.nn.Linear(fan_in, fan_out, { dtype = dtype })
        linear.weight:copy_(tensors.make(tensors.uniform(g, { fan_out, fan_in }, -bound, bound), "float64"))
        linear.bias:copy_(tensors.make(tensors.uniform(g, { fan_out }, -0.1, 0.1), "float64"))
        layers[#layers + 1] = linear
        if i < 3 then layers[#layers + 1] = ct.nn.ReLU() end
      end
      model = ct.nn.Sequential((table.unpack or unpack)(layers)) -- luacheck: ignore
    end)
    local x = tensors.make(tensors.uniform(g, { 256, 784 }, -1, 1), "float64"):to(dtype)
    local y = tensors.make(tensors.integers(g, { 256 }, 0, 9), "int64")
    local optimizer = ct.optim.Adam(model:parameters(), { lr = 1e-3 })
    local function body()
      optimizer:zero_grad()
      local loss = F.cross_entropy(model(x), y)
      loss:backward()
      optimizer:step()
      return loss
    end
    local step = traced and ct.trace(body) or body
    local seen = {}
    for i = 1, 20 do seen[i] = step():item() end
    return seen
  end

  local function agree(seen, expected, tolerance)
    for i = 1, 20 do
      local off = math.abs(seen[i] - expected[i]) / expected[i]
      assert.is_true(off <= tolerance,
        ("step %d: loss %.9g, PyTorch has %.9g: %.2g apart"):format(i, seen[i], expected[i], off))
    end
  end

  it("agree with PyTorch's losses to 1e-4, traced", function()
    agree(run("float32", true), losses.float32, 1e-4)
  end)

  it("agree in float64 to 1e-7, eager", function()
    agree(run("float64", false), losses.float64, 1e-7)
  end)
end)
