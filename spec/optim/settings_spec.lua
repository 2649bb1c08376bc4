-- Optimizers: the adaptive kinds against PyTorch's figures, hand formulas of those PyTorch has not, groups, state, and
-- settings that change while a step is recorded.
local ct = require "ctrain"
local fixtures = require "spec.support.fixtures"
local modes = require "spec.support.modes"
local random = require "spec.support.random"
local reference = require "spec.support.reference"
local tensors = require "spec.support.tensors"

local F = ct.nn.functional
local recorded = fixtures.load("adaptive")

local kinds = {
  adam_amsgrad = "Adam", sgd_maximize = "SGD", adamax = "Adamax", nadam = "NAdam", radam = "RAdam",
  rmsprop = "RMSprop", rmsprop_centered = "RMSprop", adagrad = "Adagrad", adadelta = "Adadelta", rprop = "Rprop",
  asgd = "ASGD",
}
-- PyTorch keeps a factor of these in float32.
local in_float32 = { nadam = true, asgd = true }
-- every optimizer, with options that use all of its state
local all = {
  SGD = { lr = 0.1, momentum = 0.9, dampening = 0.2 }, Adam = { lr = 0.1, amsgrad = true }, AdamW = { lr = 0.1 },
  Adamax = { lr = 0.1 }, NAdam = { lr = 0.1 }, RAdam = { lr = 0.1 }, Lion = { lr = 0.1 }, Lamb = { lr = 0.1 },
  RMSprop = { lr = 0.1, momentum = 0.5, centered = true }, Adagrad = { lr = 0.1 }, Adadelta = { lr = 0.1 },
  Rprop = { lr = 0.1 }, ASGD = { lr = 0.1, t0 = 2 },
}

-- The problem of make_fixtures.py: a small tanh regression.
local function problem(seed)
  local g = random.new(seed)
  local function draw(shape) return tensors.make(tensors.uniform(g, shape, -1, 1)) end
  return draw({ 3, 4 }):clone():requires_grad_(true), draw({ 3 }):clone():requires_grad_(true), draw({ 6, 4 }),
    draw({ 6, 3 })
end

local function stepper(optimizer, w, b, x, y)
  return function()
    optimizer:zero_grad()
    local loss = F.mse_loss(F.linear(x, w, b):tanh(), y)
    loss:backward()
    optimizer:step()
    return loss
  end
end

local function leaf(values) return ct.tensor(values, { dtype = "float64" }):requires_grad_(true) end

local function message_of(fn, ...)
  local ok, message = pcall(fn, ...)
  assert.is_false(ok, "an error was expected")
  return tostring(message)
end

local function names(text, ...)
  for _, word in ipairs { ... } do assert.is_truthy(text:find(word, 1, true), text) end
end

describe("ten steps in float64 agree with PyTorch's to 1e-9 (1e-6 where PyTorch computes in float32):", function()
  for name, kind in pairs(kinds) do
    for _, traced in ipairs { false, true } do
      it(name:gsub("_", " ") .. (traced and ", traced" or ", eager"), function()
        local w, b, x, y = problem(41)
        local body = stepper(ct.optim[kind]({ w, b }, recorded[name].options), w, b, x, y)
        local step = traced and ct.trace(body, { compile = false }) or body
        for i = 1, 10 do
          step()
          tensors.close(ct.cat({ w:detach():reshape(12), b:detach() }, 1),
            reference.array({ 15 }, recorded[name].steps[i]), in_float32[name] and 1e-6 or 1e-9,
            in_float32[name] and 1e-8 or 1e-12, "step " .. i)
        end
      end)
    end
  end
end)

describe("by hand:", function()
  it("Lion moves by the sign of the averaged gradient, after the decay", function()
    local p = leaf { 1, -2 }
    local optimizer = ct.optim.Lion({ p }, { lr = 0.1, betas = { 0.9, 0.5 }, weight_decay = 0.5 })
    local values, average = { 1, -2 }, { 0, 0 }
    for step = 1, 4 do
      local grads = { step == 2 and -9 or 1, 0.5 * step - 1.2 }
      p.grad = ct.tensor(grads, { dtype = "float64" })
      optimizer:step()
      for i = 1, 2 do
        local mixed = 0.9 * average[i] + 0.1 * grads[i]
        values[i] = values[i] * (1 - 0.1 * 0.5) - 0.1 * (mixed > 0 and 1 or mixed < 0 and -1 or 0)
        average[i] = 0.5 * average[i] + 0.5 * grads[i]
      end
      tensors.close(p:detach(), { shape = { 2 }, values[1], values[2] }, 1e-14)
    end
  end)

  it("Lamb scales the step by the norm of the parameter over the norm of the move", function()
    local p = leaf { 3, 4 }
    local optimizer = ct.optim.Lamb({ p }, { lr = 0.01, betas = { 0.5, 0.5 }, eps = 0, weight_decay = 0 })
    p.grad = ct.tensor({ 0.2, -0.7 }, { dtype = "float64" })
    optimizer:step()
    -- both averages are half the gradient and half its square: the move is (1, -1) / sqrt(2), of norm 1
    local s = 0.01 * 5 * math.sqrt(0.5)
    tensors.close(p:detach(), { shape = { 2 }, 3 - s, 4 + s }, 1e-13)
  end)

  it("SGD's first step with dampening takes the whole gradient", function()
    local p = leaf { 1 }
    local optimizer = ct.optim.SGD({ p }, { lr = 1, momentum = 0.5, dampening = 0.9 })
    p.grad = ct.tensor({ 1 }, { dtype = "float64" })
    optimizer:step()
    assert.equal(0, p:detach():totable()[1])
  end)

  it("a parameter of float32 with a step count in the millions keeps its correction", function()
    local p = ct.tensor({ 1 }, { dtype = "float32" }):requires_grad_(true)
    local optimizer = ct.optim.Adam({ p }, { lr = 0.5 })
    optimizer.state[p].step:fill_(5000000)
    optimizer.state[p].exp_avg:fill_(1)
    optimizer.state[p].exp_avg_sq:fill_(1)
    p.grad = ct.ones(1)
    optimizer:step()
    tensors.close(p:detach(), { shape = { 1 }, 0.5 }, 1e-6)
  end)
end)

describe("every optimizer", function()
  for kind, options in pairs(all) do
    it("gives the same bits eagerly and traced: " .. kind, function()
      local results = {}
      for i = 1, 2 do
        local w, b, x, y = problem(45)
        local body = stepper(ct.optim[kind]({ w, b }, options), w, b, x, y)
        local step = i == 2 and ct.trace(body, { compile = false }) or body
        for _ = 1, 5 do step() end
        results[i] = { w:detach(), b:detach() }
      end
      tensors.identical(results[1][1], results[2][1], kind)
      tensors.identical(results[1][2], results[2][2], kind)
    end)

    it("continues from its state_dict bit for bit: " .. kind, function()
      local w, b, x, y = problem(44)
      local first = ct.optim[kind]({ w, b }, options)
      local step = stepper(first, w, b, x, y)
      for _ = 1, 3 do step() end
      local w2, b2 = w:detach():clone():requires_grad_(true), b:detach():clone():requires_grad_(true)
      local second = ct.optim[kind]({ w2, b2 }, options)
      second:load_state_dict(first:state_dict())
      local other = stepper(second, w2, b2, x, y)
      for _ = 1, 3 do
        step()
        other()
      end
      tensors.identical(w:detach(), w2:detach(), kind)
      tensors.identical(b:detach(), b2:detach(), kind)
    end)

    it("trains float32 parameters and keeps their dtype: " .. kind, function()
      local p = ct.tensor({ 1, -1 }):requires_grad_(true)
      local optimizer = ct.optim[kind]({ p }, options)
      for _ = 1, 2 do
        p.grad = ct.tensor { 1, -1 }
        optimizer:step()
      end
      assert.equal("float32", p.dtype)
      local moved = p:detach():totable()
      assert.is_true(moved[1] < 1 and moved[2] > -1)
    end)
  end
end)

describe("all optimizers in one compiled step", function()
  it("give the bits of the eager one", function()
    local results, sorted = {}, {}
    for kind in pairs(all) do sorted[#sorted + 1] = kind end
    table.sort(sorted)
    for i = 1, 2 do
      local leaves, optimizers = {}, {}
      for k, kind in ipairs(sorted) do
        leaves[kind] = leaf { 0.5, -1, 2 }
        optimizers[k] = ct.optim[kind]({ leaves[kind] }, all[kind])
      end
      local function body(x)
        for _, optimizer in ipairs(optimizers) do
          local p = optimizer.param_groups[1].params[1]
          optimizer:zero_grad()
          p:mul(x):tanh():sum():backward()
          optimizer:step()
        end
      end
      local step = i == 2 and modes.compiled(body) or body
      for k = 1, 4 do step(ct.full({ 3 }, k, { dtype = "float64" })) end
      results[i] = leaves
    end
    for kind in pairs(all) do tensors.identical(results[2][kind]:detach(), results[1][kind]:detach(), kind) end
  end)
end)

describe("a setting", function()
  it("reads back as it was given, and as it was set", function()
    local optimizer = ct.optim.AdamW({ leaf { 1 } }, { lr = 0.1, betas = { 0.8, 0.9 } })
    local group = optimizer.param_groups[1]
    assert.equal(0.1, group.lr)
    assert.same({ 0.8, 0.9 }, { group.betas[1], group.betas[2] })
    group.lr, group.betas = 0.3, { 0.5, 0.6 }
    assert.equal(0.3, group.lr)
    assert.same({ 0.5, 0.6 }, { group.betas[1], group.betas[2] })
    group.betas[2] = 0.7
    assert.same({ 0.5, 0.7 }, { group.betas[1], group.betas[2] })
  end)

  it("of a number takes effect in a traced step without a second recording", function()
    local p, bodies = leaf { 10 }, { count = 0 }
    local optimizer = ct.optim.SGD({ p }, { lr = 1 })
    local step = ct.trace(function()
      bodies.count = bodies.count + 1
      optimizer:zero_grad()
      p:sum():backward()
      optimizer:step()
    end, { compile = false })
    step()
    step() -- the second call records again, to compare
    local before = bodies.count
    optimizer.param_groups[1].lr = 0.25
    step()
    assert.equal(7.75, p:detach():totable()[1])
    assert.equal(before, bodies.count)
  end)

  it("that was 0 when the step was recorded takes effect in a traced step", function()
    for _, name in ipairs { "weight_decay", "momentum" } do
      local results = {}
      for i = 1, 2 do
        local p = leaf { 10 }
        local optimizer = ct.optim.SGD({ p }, { lr = 0.5 })
        local function body()
          optimizer:zero_grad()
          p:sum():backward()
          optimizer:step()
        end
        local step = i == 2 and ct.trace(body, { compile = false }) or body
        step()
        optimizer.param_groups[1][name] = 0.5
        step()
        step()
        results[i] = p:detach():totable()[1]
      end
      assert.equal(results[1], results[2], name)
      assert.are_not.equal(8.5, results[1], name)
    end
  end)

  it("that is a switch takes effect in a traced step", function()
    local p = leaf { 0 }
    local optimizer = ct.optim.SGD({ p }, { lr = 1 })
    local step = ct.trace(function()
      optimizer:zero_grad()
      p:sum():backward()
      optimizer:step()
    end, { compile = false })
    step()
    optimizer.param_groups[1].maximize = true
    step()
    step()
    assert.equal(1, p:detach():totable()[1])
  end)

  it("written inside a traced step is a schedule", function()
    local p, rate = leaf { 0 }, ct.zeros({}, { dtype = "float64" })
    local optimizer = ct.optim.SGD({ p }, { lr = 1 })
    local step = ct.trace(function()
      rate:add_(1)
      optimizer.param_groups[1]:tensor("lr"):copy_(rate)
      optimizer:zero_grad()
      p:sum():backward()
      optimizer:step()
    end, { compile = false })
    for _ = 1, 4 do step() end
    assert.equal(-10, p:detach():totable()[1])
    assert.equal(4, optimizer.param_groups[1].lr)
  end)

  it("that the group has not is refused with the nearest name", function()
    local group = ct.optim.Adam({ leaf { 1 } }).param_groups[1]
    names(message_of(function() group.bettas = { 0, 0 } end), "'bettas'", "'betas'")
  end)

  it("of another kind is refused, and the old one stays", function()
    local group = ct.optim.Adam({ leaf { 1 } }, { lr = 0.5 }).param_groups[1]
    names(message_of(function() group.lr = "fast" end), "lr", "fast")
    names(message_of(function() group.lr = 0 / 0 end), "lr", "nan")
    names(message_of(function() group.amsgrad = 1 end), "amsgrad", "boolean")
    assert.equal(0.5, group.lr)
    assert.is_false(group.amsgrad)
  end)
end)

describe("groups", function()
  it("take the optimizer's defaults where they give none", function()
    local optimizer = ct.optim.AdamW({ { params = { leaf { 1 } }, lr = 0.5 }, { params = { leaf { 2 } } } },
      { lr = 0.1 })
    assert.equal(0.5, optimizer.param_groups[1].lr)
    assert.equal(0.1, optimizer.param_groups[2].lr)
    assert.equal(0.01, optimizer.param_groups[1].weight_decay)
  end)

  it("can be added later, and are trained", function()
    local a, b = leaf { 1 }, leaf { 1 }
    local optimizer = ct.optim.SGD({ a }, { lr = 0.5 })
    optimizer:add_param_group { params = { b }, lr = 0.25 }
    ;(a + b):sum():backward()
    optimizer:step()
    assert.same({ 0.5, 0.75 }, { a:detach():totable()[1], b:detach():totable()[1] })
  end)
end)

describe("the state of an optimizer", function()
  it("is laid out as PyTorch's: numbered from 0, with the groups' settings", function()
    local w, b = leaf { 1, 2 }, leaf { 3 }
    local dict = ct.optim.Adam({ w, b }, { lr = 0.5 }):state_dict()
    assert.same({ 2 }, dict.state[0].exp_avg.shape)
    assert.same({ 1 }, dict.state[1].exp_avg_sq.shape)
    assert.same({}, dict.state[1].step.shape)
    assert.is_nil(dict.state[2])
    assert.same({ 0, 1 }, dict.param_groups[1].params)
    assert.equal(0.5, dict.param_groups[1].lr)
    assert.same({ 0.9, 0.999 }, dict.param_groups[1].betas)
    assert.is_false(dict.param_groups[1].amsgrad)
  end)

  it("brings its settings along", function()
    local first, second = ct.optim.SGD({ leaf { 1 } }, { lr = 0.5, momentum = 0.25 }), ct.optim.SGD({ leaf { 1 } })
    second:load_state_dict(first:state_dict())
    assert.equal(0.5, second.param_groups[1].lr)
    assert.equal(0.25, second.param_groups[1].momentum)
  end)

  it("that does not fit is refused, naming what differs, and nothing changes", function()
    local p = leaf { 1, 2 }
    local optimizer = ct.optim.Adam({ p }, { lr = 0.5 })
    names(message_of(optimizer.load_state_dict, optimizer, ct.optim.Adam({ leaf { 1 } }):state_dict()), "exp_avg")
    names(message_of(optimizer.load_state_dict, optimizer, ct.optim.Adam({ p, leaf { 1 } }):state_dict()), "parameters",
      "2", "1")
    names(message_of(optimizer.load_state_dict, optimizer, { state = {} }), "param_groups")
    names(message_of(optimizer.load_state_dict, optimizer,
      ct.optim.Adam({ { params = { p } }, { params = { leaf { 1 } } } }):state_dict()), "groups")
    assert.equal(0.5, optimizer.param_groups[1].lr)
    assert.same({ 0, 0 }, optimizer.state[p].exp_avg:totable())
  end)
end)

describe("an optimizer refuses", function()
  local function refused(kind, params, options, ...) names(message_of(ct.optim[kind], params, options), ...) end

  it("one tensor for a list", function() refused("SGD", leaf { 1 }, { lr = 1 }, "params", "list") end)
  it("a model for a list", function() refused("SGD", ct.nn.Linear(1, 1), { lr = 1 }, "model:parameters()") end)
  it("an empty list", function() refused("SGD", {}, { lr = 1 }, "empty") end)
  it("a tensor that is computed", function() refused("SGD", { leaf { 1 } * 2 }, { lr = 1 }, "params[1]") end)
  it("a tensor of integers", function()
    refused("SGD", { ct.ones({ 2 }, "int64") }, { lr = 1 }, "params[1]", "int64")
  end)
  it("a parameter given twice", function()
    local p = leaf { 1 }
    refused("SGD", { p, p }, { lr = 1 }, "params[2]", "twice")
    refused("SGD", { { params = { p } }, { params = { p } } }, { lr = 1 }, "twice")
  end)
  it("a beta of 1", function() refused("Adam", { leaf { 1 } }, { betas = { 0.9, 1 } }, "betas[2]") end)
  it("nesterov without momentum", function()
    refused("SGD", { leaf { 1 } }, { lr = 1, nesterov = true }, "nesterov")
  end)
  it("a NaN learning rate", function() refused("Adam", { leaf { 1 } }, { lr = 0 / 0 }, "lr", "nan") end)
  it("a learning rate that is text", function() refused("AdamW", { leaf { 1 } }, { lr = "1e-3" }, "lr", "1e-3") end)
  it("an unknown option of a group, with the nearest name", function()
    refused("Adam", { { params = { leaf { 1 } }, weightdecay = 1 } }, nil, "'weightdecay'", "'weight_decay'")
  end)
end)

describe("an optimizer whose model was converted later", function()
  it("says so instead of training nothing", function()
    local model = ct.nn.Linear(1, 1)
    local optimizer = ct.optim.SGD(model:parameters())
    model:double()
    model(ct.ones({ 1, 1 }, "float64")):sum():backward()
    names(message_of(optimizer.step, optimizer), "converted", "after the conversion")
  end)

  it("goes on where the conversion changed nothing", function()
    local model = ct.nn.Linear(1, 1)
    local optimizer = ct.optim.SGD(model:parameters(), { lr = 1 })
    model:float()
    local before = model.bias:item()
    model(ct.ones(1, 1)):sum():backward()
    optimizer:step()
    assert.is_true(model.bias:item() < before)
  end)
end)

describe("zero_grad", function()
  it("forgets gradients, or zeroes them when told to keep them", function()
    local p = leaf { 1 }
    local optimizer = ct.optim.SGD({ p })
    p.grad = ct.tensor({ 3 }, { dtype = "float64" })
    optimizer:zero_grad(false)
    assert.same({ 0 }, p.grad:totable())
    optimizer:zero_grad()
    assert.is_nil(p.grad)
  end)
end)

describe("step", function()
  it("calls a closure first and returns its loss", function()
    local p = leaf { 2 }
    local optimizer = ct.optim.SGD({ p }, { lr = 0.5 })
    local loss = optimizer:step(function()
      local l = (p * p):sum()
      l:backward()
      return l
    end)
    assert.equal(4, loss:item())
    assert.same({ 0 }, p:detach():totable())
  end)
end)

describe("clipping", function()
  it("leaves gradients within the norm as they are, but for one rounding", function()
    local p = leaf { 1, 1 }
    p.grad = ct.tensor({ 0.3, 0.4 }, { dtype = "float64" })
    local norm = ct.nn.utils.clip_grad_norm_({ p }, 1)
    tensors.close(norm, { shape = {}, 0.5 }, 1e-15)
    assert.same({ 0.3, 0.4 }, p.grad:totable())
  end)

  it("by value bounds every element", function()
    local p = leaf { 1, 1, 1 }
    p.grad = ct.tensor({ -3, 0.5, 3 }, { dtype = "float64" })
    ct.nn.utils.clip_grad_value_({ p }, 1)
    assert.same({ -1, 0.5, 1 }, p.grad:totable())
  end)

  it("of an infinite gradient is an error when asked for, and the gradient stays", function()
    local p = leaf { 1, 1 }
    p.grad = ct.tensor({ 1, math.huge }, { dtype = "float64" })
    names(message_of(ct.nn.utils.clip_grad_norm_, { p }, 1, { error_if_nonfinite = true }), "not finite")
    assert.same({ 1, math.huge }, p.grad:totable())
  end)

  it("of a model in place of its parameters is refused", function()
    for _, clip in ipairs { ct.nn.utils.clip_grad_norm_, ct.nn.utils.clip_grad_value_ } do
      names(message_of(clip, ct.nn.Linear(1, 1), 1), "model:parameters()")
    end
  end)

  it("without gradients gives a norm of 0", function()
    assert.equal(0, ct.nn.utils.clip_grad_norm_({ leaf { 1 } }, 1):item())
  end)

  it("in a traced step agrees with the eager one bit for bit", function()
    local results = {}
    for i = 1, 2 do
      local w, b, x, y = problem(46)
      local optimizer = ct.optim.SGD({ w, b }, { lr = 1 })
      local function body()
        optimizer:zero_grad()
        F.mse_loss(F.linear(x, w, b):tanh(), y):backward()
        local norm = ct.nn.utils.clip_grad_norm_({ w, b }, 0.01)
        optimizer:step()
        return norm
      end
      local step = i == 2 and ct.trace(body, { compile = false }) or body
      for _ = 1, 3 do results[i] = { step(), w:detach() } end
    end
    tensors.identical(results[1][1], results[2][1])
    tensors.identical(results[1][2], results[2][2])
  end)
end)
