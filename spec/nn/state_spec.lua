-- Models as trees: names, order, shared parameters, state, conversion, modes and drawing.
local ct = require "ctrain"
local tensors = require "spec.support.tensors"

local nn = ct.nn

local function names_of(...)
  local list = {}
  for name in ... do list[#list + 1] = name end
  return list
end

local function message_of(fn, ...)
  local ok, message = pcall(fn, ...)
  assert.is_false(ok, "an error was expected")
  return tostring(message)
end

local function has(text, ...)
  for _, word in ipairs { ... } do assert.is_truthy(text:find(word, 1, true), text) end
end

local Net = nn.class "Net"

function Net:init()
  self.embed = nn.Embedding(5, 4)
  self.blocks = nn.ModuleList { nn.Linear(4, 4), nn.Sequential(nn.LayerNorm(4), nn.ReLU()) }
  self.gain = nn.Parameter(ct.ones(4))
  self.mask = nn.Buffer(ct.zeros(4))
  self.scratch = nn.Buffer(ct.zeros(2), false)
  self.norm = nn.BatchNorm1d(4)
  self.width = 4
end

function Net:forward(ids)
  local x = self.embed(ids)
  for _, block in ipairs(self.blocks) do x = block(x) end
  return self.norm(x * self.gain + self.mask)
end

local ids = ct.tensor({ 0, 3, 1 }, { dtype = "int64" })

describe("the names of a model", function()
  it("are those that PyTorch gives, in the order of assignment, a module's own before its children's", function()
    assert.same({ "gain", "embed.weight", "blocks.0.weight", "blocks.0.bias", "blocks.1.0.weight", "blocks.1.0.bias",
      "norm.weight", "norm.bias" }, names_of(Net():named_parameters()))
  end)

  it("of buffers are listed apart", function()
    assert.same({ "mask", "scratch", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked" },
      names_of(Net():named_buffers()))
  end)

  it("of modules begin with the model itself", function()
    assert.same({ "", "embed", "blocks", "blocks.0", "blocks.1", "blocks.1.0", "blocks.1.1", "norm" },
      names_of(Net():named_modules()))
  end)

  it("of an encoder layer are PyTorch's", function()
    assert.same({ "self_attn.in_proj_weight", "self_attn.in_proj_bias", "self_attn.out_proj.weight",
      "self_attn.out_proj.bias", "linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias", "norm1.weight",
      "norm1.bias", "norm2.weight", "norm2.bias" }, names_of(nn.TransformerEncoderLayer(4, 2):named_parameters()))
  end)

  it("in a list that is a plain table count from 0", function()
    local model = nn.Module()
    model.parts = { nn.Linear(1, 1, false), nn.Linear(1, 1, false) }
    assert.same({ "parts.0.weight", "parts.1.weight" }, names_of(model:named_parameters()))
  end)

  it("lead to the module", function()
    local net = Net()
    assert.equal(net.blocks[2][1], net:get_submodule("blocks.1.0"))
    has(message_of(net.get_submodule, net, "blocks.7"), "blocks.7")
  end)

  it("refuse a dot", function()
    has(message_of(function() Net()["a.b"] = nn.Linear(1, 1) end), "'a.b'")
  end)
end)

describe("state_dict", function()
  it("holds parameters and persistent buffers, and nothing else", function()
    local list = {}
    for name in pairs(Net():state_dict()) do list[#list + 1] = name end
    table.sort(list)
    assert.same({ "blocks.0.bias", "blocks.0.weight", "blocks.1.0.bias", "blocks.1.0.weight", "embed.weight", "gain",
      "mask", "norm.bias", "norm.num_batches_tracked", "norm.running_mean", "norm.running_var", "norm.weight" }, list)
  end)

  it("shows what the model has now, not what it had", function()
    local net = Net()
    local state = net:state_dict()
    ct.no_grad(function() net.gain:fill_(7) end)
    assert.same({ 7, 7, 7, 7 }, state.gain:totable())
  end)

  it("names a shared parameter under each of its names, parameters() lists it once", function()
    local model = nn.Module()
    model.a = nn.Linear(3, 3)
    model.b = nn.Linear(3, 3)
    model.b.weight = model.a.weight
    local state = model:state_dict()
    assert.is_not_nil(state["a.weight"])
    assert.is_not_nil(state["b.weight"])
    assert.equal(3, #model:parameters())
  end)
end)

describe("load_state_dict", function()
  it("gives the names it missed and did not expect", function()
    local state = Net():state_dict()
    state.gain, state.stranger = nil, ct.zeros(1)
    local result = Net():load_state_dict(state, { strict = false })
    assert.same({ "gain" }, result.missing_keys)
    assert.same({ "stranger" }, result.unexpected_keys)
  end)

  it("refuses wrong shapes even when not strict", function()
    local state = Net():state_dict()
    state.gain = ct.zeros(9)
    has(message_of(function() Net():load_state_dict(state, false) end), "gain", "9", "4")
  end)

  it("refuses what is no tensor, by name", function()
    local state = Net():state_dict()
    state.gain = "heavy"
    has(message_of(function() Net():load_state_dict(state) end), "gain", "string")
  end)

  it("converts to the model's dtype and keeps its tensors", function()
    local net = Net()
    local gain = net.gain
    local state = net:state_dict()
    state.gain = ct.full({ 4 }, 0.5, { dtype = "float64" })
    net:load_state_dict(state)
    assert.equal("float32", net.gain.dtype)
    assert.is_true(rawequal(gain, net.gain))
    assert.same({ 0.5, 0.5, 0.5, 0.5 }, gain:totable())
  end)

  it("takes effect in a step that was recorded before", function()
    local net = nn.Linear(2, 1)
    local step = ct.trace(function(x) return net(x) end, { compile = false })
    local x = ct.ones(1, 2)
    step(x)
    net:load_state_dict { weight = ct.tensor { { 2, 3 } }, bias = ct.tensor { 5 } }
    assert.same({ { 10 } }, step(x):totable())
  end)
end)

describe("a conversion", function()
  it("changes floating parameters and buffers, and leaves integers", function()
    local net = Net():double()
    assert.equal("float64", net.gain.dtype)
    assert.equal("float64", net.norm.running_mean.dtype)
    assert.equal("int64", net.norm.num_batches_tracked.dtype)
  end)

  it("keeps every value, and what is trained", function()
    local net = Net()
    net.gain.requires_grad = false
    local before = net.embed.weight:detach():clone()
    net:double()
    tensors.identical(net.embed.weight:detach(), before:double())
    assert.is_true(net.embed.weight.requires_grad)
    assert.is_false(net.gain.requires_grad)
  end)

  it("to the dtype it has keeps the very tensors, so that an optimizer made before still trains them", function()
    local net = nn.Linear(2, 2)
    local weight = net.weight
    net:float()
    assert.is_true(rawequal(weight, net.weight))
    assert.is_true(net.weight.requires_grad)
  end)

  it("keeps shared parameters shared", function()
    local model = nn.Module()
    model.a = nn.Linear(3, 3)
    model.b = nn.Linear(3, 3)
    model.b.weight = model.a.weight
    model:double()
    assert.is_true(rawequal(model.a.weight, model.b.weight))
  end)

  it("to a type that does not float is refused", function()
    has(message_of(function() Net():to("int64") end), "floating", "int64")
  end)
end)

describe("a change to a whole model", function()
  it("apply visits the children before the module", function()
    local seen = {}
    nn.Sequential(nn.Sequential(nn.ReLU()), nn.Tanh()):apply(function(m) seen[#seen + 1] = m end)
    local kinds = {}
    for i, m in ipairs(seen) do kinds[i] = tostring(m):match("^%a+") end
    assert.same({ "ReLU", "Sequential", "Tanh", "Sequential" }, kinds)
  end)

  it("requires_grad_(false) freezes it", function()
    local net = Net():requires_grad_(false):eval()
    assert.is_false(net(ids).requires_grad)
  end)

  it("zero_grad forgets all gradients", function()
    local net = Net()
    net(ids):sum():backward()
    assert.is_not_nil(net.gain.grad)
    net:zero_grad()
    for _, p in ipairs(net:parameters()) do assert.is_nil(p.grad) end
  end)

  it("eval and train reach modules in plain lists", function()
    local model = nn.Module()
    model.parts = { nn.Dropout(0.5) }
    model:eval()
    assert.is_false(model.parts[1].training)
    model:train()
    assert.is_true(model.parts[1].training)
  end)

  it("an attribute set to nil is gone from the names", function()
    local net = Net()
    net.norm = nil
    for name in net:named_parameters() do assert.is_nil(name:find("norm", 1, true)) end
  end)
end)

describe("containers", function()
  it("Sequential passes each output on", function()
    local model = nn.Sequential(nn.Flatten(), nn.ReLU())
    assert.same({ { 0, 2, 0, 4 } }, model(ct.tensor { { { -1, 2 }, { -3, 4 } } }):totable())
  end)

  it("ModuleList grows and is counted", function()
    local list = nn.ModuleList { nn.ReLU() }
    list:append(nn.Linear(1, 1)):extend_with { nn.Tanh() }
    assert.equal(3, #list)
    assert.same({ "1.weight", "1.bias" }, names_of(list:named_parameters()))
  end)

  it("ModuleDict names what it holds", function()
    local dict = nn.ModuleDict { b = nn.Linear(1, 1), a = nn.ReLU() }
    assert.same({ "b.weight", "b.bias" }, names_of(dict:named_parameters()))
    assert.same({ "a", "b" }, names_of(dict:named_children()))
  end)

  it("refuse what is no module, by its number", function()
    has(message_of(nn.Sequential, nn.ReLU(), 5), "item 2", "5")
  end)
end)

describe("a drawing", function()
  it("is a tree with the number of parameters in each module", function()
    local model = nn.Sequential(nn.Linear(784, 128), nn.Sequential(nn.ReLU(), nn.Linear(128, 10, false)),
      nn.Dropout(0.1))
    assert.equal(table.concat({
      "Sequential                         101,760 parameters",
      "├─ 0: Linear(784, 128)             100,480",
      "├─ 1: Sequential                     1,280",
      "│  ├─ 0: ReLU",
      "│  └─ 1: Linear(128, 10, bias=false)  1,280",
      "└─ 2: Dropout(p=0.1)",
    }, "\n"):gsub("%s+", " "), (tostring(model):gsub("%s+", " ")))
  end)

  it("has its figures in one column", function()
    local column
    for line in tostring(nn.Sequential(nn.Linear(784, 128), nn.Linear(128, 10))):gmatch("[^\n]+") do
      local plain = line:gsub("[\192-\255][\128-\191]*", "-")
      local last = select(2, plain:find("%d[%d,]*%f[^%d,]", plain:find("  ", 1, true)))
      column = column or last
      assert.equal(column, last, line)
    end
  end)
end)

describe("nn refuses", function()
  it("a module without forward, by its class", function()
    has(message_of(nn.class("Idle")()), "Idle", "forward")
  end)

  it("a wrong input with the path of the layer", function()
    has(message_of(Net(), ct.tensor { 0.5 }), "embed", "Embedding", "int64", "float32")
    local deep = nn.Sequential(nn.ReLU(), nn.Sequential(nn.Linear(3, 2)))
    has(message_of(deep, ct.zeros(4, 5)), "'1.0'", "Linear", "4x5", "3")
  end)

  it("sizes that are no counts, by name", function()
    has(message_of(nn.Linear, 2.5, 3), "in_features", "2.5")
    has(message_of(nn.Linear, 2, -3), "out_features", "-3")
    has(message_of(nn.Linear, 0 / 0, 3), "in_features", "nan")
    has(message_of(nn.Embedding, "many", 3), "num_embeddings", "many")
    has(message_of(nn.LayerNorm, 0), "normalized_shape", "0")
  end)

  it("3.0 for 3 it takes", function()
    assert.same({ 2, 3 }, nn.Linear(3.0, 2.0).weight.shape)
  end)

  it("an argument that is missing, by name", function() has(message_of(nn.Linear, 3), "out_features") end)

  it("unknown options, with the nearest name", function()
    has(message_of(nn.Linear, 3, 4, { biass = false }), "'biass'", "'bias'")
    has(message_of(nn.functional.cross_entropy, ct.zeros(1, 2), ct.zeros({ 1 }, "int64"), { ignore_indx = 1 }),
      "'ignore_indx'", "'ignore_index'")
  end)

  it("probabilities outside 0 to 1", function()
    has(message_of(nn.Dropout, 1.5), "p", "1.5")
    has(message_of(nn.functional.cross_entropy, ct.zeros(1, 2), ct.zeros({ 1 }, "int64"), { label_smoothing = -1 }),
      "label_smoothing", "-1")
  end)

  it("an unknown reduction", function()
    local message = message_of(nn.functional.mse_loss, ct.zeros(1), ct.zeros(1), { reduction = "avg" })
    has(message, "reduction", "'avg'", "mean")
  end)

  it("a target whose shape would broadcast", function()
    has(message_of(nn.functional.mse_loss, ct.zeros(4), ct.zeros(4, 1)), "4x1", "mse_loss")
    has(message_of(nn.functional.cross_entropy, ct.zeros(4, 3), ct.zeros({ 4, 1 }, "int64")), "4x3", "4x1")
  end)

  it("labels out of range, with the number of classes", function()
    for _, label in ipairs { 3, -1 } do
      local target = ct.tensor({ 0, label }, { dtype = "int64" })
      local message = message_of(nn.functional.cross_entropy, ct.zeros(2, 3), target)
      has(message, "cross_entropy", "label " .. label, "3 classes")
      has(message_of(nn.functional.nll_loss, ct.zeros(2, 3), target), "nll_loss", "label " .. label, "3 classes")
    end
  end)

  it("labels out of range in a traced step, with the script line", function()
    local step = ct.trace(function(x, y) return nn.functional.cross_entropy(x, y) end, { compile = false })
    local function at(label) return step(ct.zeros(2, 3), ct.tensor({ 0, label }, { dtype = "int64" })) end
    at(2)
    for _ = 1, 2 do has(message_of(at, 7), "7", "3", "state_spec.lua:") end
    assert.is_true(math.abs(at(1):item() - math.log(3)) < 1e-6)
  end)

  it("a class to ignore that is no whole number", function()
    has(message_of(nn.functional.cross_entropy, ct.zeros(1, 2), ct.zeros({ 1 }, "int64"), { ignore_index = 0.5 }),
      "ignore_index", "0.5")
  end)

  it("dropout of integers, which could not be scaled", function()
    has(message_of(nn.Dropout(0.5), ct.ones({ 3 }, "int64")), "dropout", "int64")
  end)

  it("labels that are no integers", function()
    has(message_of(nn.functional.nll_loss, ct.zeros(4, 3), ct.zeros(4)), "nll_loss", "float32")
  end)

  it("class weights of another number", function()
    has(message_of(nn.functional.cross_entropy, ct.zeros(2, 3), ct.zeros({ 2 }, "int64"), { weight = ct.ones(4) }),
      "weight", "4", "3")
  end)

  it("heads that do not divide the width", function() has(message_of(nn.MultiheadAttention, 10, 3), "10", "3") end)

  it("row numbers out of range, with the number of rows", function()
    has(message_of(nn.Embedding(4, 2), ct.tensor({ 1, 4 }, { dtype = "int64" })), "4")
    has(message_of(nn.Embedding(4, 2), ct.tensor({ -1 }, { dtype = "int64" })), "-1")
  end)

  it("batch norm of one value a channel in training", function()
    has(message_of(nn.BatchNorm1d(3), ct.zeros(1, 3)), "1x3", "more than one")
  end)
end)
