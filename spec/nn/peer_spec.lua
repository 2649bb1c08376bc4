-- Layers and losses against PyTorch's values and gradients in float64.
local ct = require "ctrain"
local fixtures = require "spec.support.fixtures"
local random = require "spec.support.random"
local tensors = require "spec.support.tensors"

local F = ct.nn.functional

describe("layers agree with PyTorch:", function()
  local recorded = fixtures.load("layers")

  local function case(name, seed, shapes, f)
    it((name:gsub("_", " ")), function() fixtures.check(recorded[name], seed, shapes, f) end)
  end

  case("linear", 1, { { 5, 4 }, { 3, 4 }, { 3 } }, F.linear)
  case("linear_without_bias", 2, { { 2, 3, 4 }, { 5, 4 } }, F.linear)
  case("relu", 3, { { 3, 7 } }, ct.relu)
  case("tanh", 4, { { 3, 7 } }, ct.tanh)
  case("sigmoid", 5, { { 3, 7 } }, ct.sigmoid)
  case("gelu", 6, { { 3, 7 } }, F.gelu)
  case("gelu_tanh", 7, { { 3, 7 } }, function(x) return F.gelu(x, "tanh") end)
  case("layer_norm", 8, { { 4, 6 }, { 6 }, { 6 } }, function(x, w, b) return F.layer_norm(x, { 6 }, w, b) end)
  case("layer_norm_two_dimensions", 9, { { 3, 4, 5 }, { 4, 5 }, { 4, 5 } },
    function(x, w, b) return F.layer_norm(x, { 4, 5 }, w, b, 1e-3) end)
  case("softmax", 10, { { 4, 5, 3 } }, function(x) return (x * 3):softmax(2) end)
  case("log_softmax", 11, { { 4, 5 } }, function(x) return (x * 3):log_softmax(-1) end)
  case("logsumexp", 12, { { 4, 5 } }, function(x) return (x * 3):logsumexp(2) end)
  case("var", 13, { { 4, 5 } }, function(x) return x:var(2) end)
  case("std", 14, { { 4, 5 } }, function(x) return x:std { dim = 1, correction = 0 } end)
  case("norm", 15, { { 4, 5 } }, function(x) return x:norm { dim = 2 } end)
  case("embedding", 16, { { 6, 3 } }, function(w)
    return F.embedding(ct.tensor({ { 0, 5, 2 }, { 2, 2, 1 } }, { dtype = "int64" }), w)
  end)
  case("einsum", 17, { { 3, 4, 5 }, { 3, 5, 2 } }, function(a, b) return ct.einsum("bij,bjk->bki", a, b) end)
end)

describe("losses agree with PyTorch:", function()
  local recorded = fixtures.load("losses")
  local function labels(list) return ct.tensor(list, { dtype = "int64" }) end
  local target, ignoring = labels { 2, 0, 4, 1, 1, 3 }, labels { 2, -100, 4, 1, -100, 3 }
  local weight = ct.tensor({ 0.2, 1, 0.5, 2, 1.5 }, { dtype = "float64" })

  local function case(name, seed, shape, f)
    it((name:gsub("_", " ")), function() fixtures.check(recorded[name], seed, { shape }, f, -2, 2) end)
  end

  local function uniform(seed, shape, low, high)
    return tensors.make(tensors.uniform(random.new(seed), shape, low or -1, high or 1))
  end

  for _, reduction in ipairs { "mean", "sum", "none" } do
    case("cross_entropy_" .. reduction, 21, { 6, 5 },
      function(x) return F.cross_entropy(x, target, { reduction = reduction }) end)
    case("smoothed_" .. reduction, 22, { 6, 5 },
      function(x) return F.cross_entropy(x, target, { label_smoothing = 0.1, reduction = reduction }) end)
    case("ignoring_" .. reduction, 23, { 6, 5 },
      function(x) return F.cross_entropy(x, ignoring, { reduction = reduction }) end)
    case("weighted_" .. reduction, 24, { 6, 5 },
      function(x) return F.cross_entropy(x, target, { weight = weight, reduction = reduction }) end)
    case("weighted_smoothed_ignoring_" .. reduction, 25, { 6, 5 }, function(x)
      return F.cross_entropy(x, ignoring, { weight = weight, label_smoothing = 0.2, reduction = reduction })
    end)
    case("nll_" .. reduction, 26, { 6, 5 }, function(x) return F.nll_loss(x, target, { reduction = reduction }) end)
    case("nll_weighted_ignoring_" .. reduction, 27, { 6, 5 },
      function(x) return F.nll_loss(x, ignoring, { weight = weight, reduction = reduction }) end)
    case("mse_" .. reduction, 28, { 4, 3 },
      function(x) return F.mse_loss(x, uniform(29, { 4, 3 }), { reduction = reduction }) end)
    case("bce_" .. reduction, 30, { 4, 3 }, function(x)
      return F.binary_cross_entropy_with_logits(x, uniform(31, { 4, 3 }, 0, 1), { reduction = reduction })
    end)
  end
  case("cross_entropy_of_images", 32, { 2, 3, 2, 2 },
    function(x) return F.cross_entropy(x, labels { { { 0, 1 }, { 2, 1 } }, { { 1, 1 }, { 0, 2 } } }) end)
  case("cross_entropy_of_probabilities", 33, { 3, 4 },
    function(x) return F.cross_entropy(x, uniform(34, { 3, 4 }):softmax(2)) end)
  case("cross_entropy_of_one_sample", 35, { 5 },
    function(x) return F.cross_entropy(x, ct.tensor(3, { dtype = "int64" })) end)
  case("bce_weighted", 36, { 4, 3 }, function(x)
    return F.binary_cross_entropy_with_logits(x, uniform(37, { 4, 3 }, 0, 1),
      { pos_weight = ct.tensor({ 0.5, 1, 3 }, { dtype = "float64" }) })
  end)

  it("a batch of 0 has a loss of NaN by mean and of 0 by sum", function()
    local none = ct.zeros({ 0 }, "int64")
    local mean = F.cross_entropy(ct.zeros(0, 5), none):item()
    assert.is_true(mean ~= mean)
    assert.equal(0, F.cross_entropy(ct.zeros(0, 5), none, { reduction = "sum" }):item())
  end)

  it("a label out of range is an error that names it and the number of classes", function()
    local ok, message = pcall(F.cross_entropy, ct.zeros(2, 3), labels { 0, 7 })
    assert.is_false(ok)
    assert.is_truthy(message:find("7", 1, true) and message:find("3", 1, true), message)
  end)
end)
