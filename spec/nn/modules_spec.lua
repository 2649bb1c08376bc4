-- Activations, normalisations, attention and distances against PyTorch's values and gradients in float64, and what
-- modules do beyond their formulas.
local ct = require "ctrain"
local fixtures = require "spec.support.fixtures"
local random = require "spec.support.random"
local tensors = require "spec.support.tensors"

local nn, F = ct.nn, ct.nn.functional
local unpack = table.unpack or unpack -- luacheck: ignore

local function drawn(seed, shape, low, high)
  return tensors.make(tensors.uniform(random.new(seed), shape, low, high))
end

describe("modules agree with PyTorch:", function()
  local recorded = fixtures.load("modules")

  local function case(name, seed, shapes, f, low, high)
    it((name:gsub("_", " ")), function() fixtures.check(recorded[name], seed, shapes, f, low, high) end)
  end

  local activations = {
    relu6 = function(x) return nn.ReLU6()(x * 2) end, silu = nn.SiLU(), mish = nn.Mish(), softplus = nn.Softplus(2, 5),
    logsigmoid = nn.LogSigmoid(), hardswish = nn.Hardswish(), hardsigmoid = nn.Hardsigmoid(),
    hardtanh = nn.Hardtanh(-2, 1.5), leaky_relu = nn.LeakyReLU(0.2), elu = nn.ELU { alpha = 0.7 }, glu = nn.GLU(),
  }
  for name, f in pairs(activations) do case(name, 51, { { 3, 8 } }, f, -4, 4) end

  case("normalize", 52, { { 3, 4 } }, function(x) return F.normalize(x, { dim = 2 }) end)
  case("cosine_similarity", 53, { { 3, 4 }, { 3, 4 } }, F.cosine_similarity)
  case("rms_norm", 54, { { 4, 6 }, { 6 } }, function(x, w) return F.rms_norm(x, { 6 }, w, 1e-3) end)
  case("group_norm", 55, { { 2, 6, 5 }, { 6 }, { 6 } }, function(x, w, b) return F.group_norm(x, 3, w, b) end)

  -- the module with the given tensors as its parameters
  local function batch_norm(name, w, b)
    local norm = nn[name](3, { dtype = "float64" })
    norm.weight, norm.bias = nn.Parameter(w), nn.Parameter(b)
    return norm
  end
  case("batch_norm", 56, { { 4, 3, 5 }, { 3 }, { 3 } },
    function(x, w, b) return batch_norm("BatchNorm1d", w, b)(x) end)
  case("batch_norm_by_running_statistics", 57, { { 4, 3, 2, 2 }, { 3 }, { 3 } }, function(x, w, b)
    local norm = batch_norm("BatchNorm2d", w, b):eval()
    norm.running_mean:copy_(ct.tensor({ 0.1, -0.2, 0.3 }, { dtype = "float64" }))
    norm.running_var:copy_(ct.tensor({ 0.5, 1, 2 }, { dtype = "float64" }))
    return norm(x)
  end)

  it("running statistics of batch norm, eagerly and traced", function()
    for _, traced in ipairs { false, true } do
      local norm, g = nn.BatchNorm1d(3, { dtype = "float64" }), random.new(58)
      local step = traced and ct.trace(function(x) return norm(x) end, { compile = false }) or norm
      for _ = 1, 3 do step(tensors.make(tensors.uniform(g, { 4, 3 }, -2, 3))) end
      tensors.close(norm.running_mean, fixtures.array(recorded.running_statistics.mean), 1e-12)
      tensors.close(norm.running_var, fixtures.array(recorded.running_statistics.var), 1e-12)
      assert.equal(3, tonumber(norm.num_batches_tracked:item()))
    end
  end)
end)

describe("attention agrees with PyTorch:", function()
  local recorded = fixtures.load("attention")
  local widths = { { 5, 2, 8 }, { 24, 8 }, { 24 }, { 8, 8 }, { 8 } }

  local function attend(given)
    return function(x, w, b, out_w, out_b)
      local m = nn.MultiheadAttention(8, 2, { dtype = "float64" }):eval()
      m.in_proj_weight, m.in_proj_bias = nn.Parameter(w), nn.Parameter(b)
      m.out_proj.weight, m.out_proj.bias = nn.Parameter(out_w), nn.Parameter(out_b)
      return m(x, given)
    end
  end
  local upper = ct.ones(5, 5):triu(1):to("bool")
  local padding = ct.tensor { { false, false, false, false, false }, { false, false, false, true, true } }
  for name, case in pairs {
    attention = { 59, nil }, attention_causal = { 60, { is_causal = true } },
    attention_padded = { 61, { key_padding_mask = padding } },
  } do
    it((name:gsub("_", " ")), function() fixtures.check(recorded[name], case[1], widths, attend(case[2])) end)
  end
  it("a mask that forbids what a causal one does",
    function() fixtures.check(recorded.attention_causal, 60, widths, attend { attn_mask = upper }) end)

  for name, given in pairs { encoder = {}, encoder_norm_first = { norm_first = true, activation = "gelu" } } do
    it((name:gsub("_", " ")), function()
      local options = { dim_feedforward = 12, dropout = 0, batch_first = true }
      for key, value in pairs(given) do options[key] = value end
      local layer = nn.TransformerEncoderLayer(8, 2, options):double()
      local shapes, names = { { 2, 5, 8 } }, {}
      for path, p in layer:named_parameters() do shapes[#shapes + 1], names[#names + 1] = p.shape, path end
      fixtures.check(recorded[name], 62, shapes, function(x, ...)
        for i, path in ipairs(names) do
          local owner, field = path:match("^(.*)%.([^.]*)$")
          layer:get_submodule(owner)[field] = nn.Parameter((select(i, ...)))
        end
        return layer(x)
      end)
    end)
  end
end)

describe("losses on real targets agree with PyTorch:", function()
  local recorded = fixtures.load("distances")
  local y = drawn(63, { 4, 3 }, -2, 2)
  local p = y:softmax(2)
  local sign = ct.tensor({ { 1, -1, 1 } }, { dtype = "float64" }):expand(4, 3)

  local function case(name, seed, count, f, low, high)
    local shapes = {}
    for i = 1, count do shapes[i] = { 4, 3 } end
    it((name:gsub("_", " ")), function() fixtures.check(recorded[name], seed, shapes, f, low, high) end)
  end

  for _, reduction in ipairs { "mean", "sum", "none" } do
    local function named(name, seed, count, class, options, targets, low, high)
      options.reduction = reduction
      case(name .. "_" .. reduction, seed, count, function(...)
        local given = { ... }
        for _, target in ipairs(targets) do given[#given + 1] = target end
        return nn[class](options)(unpack(given))
      end, low, high)
    end
    named("l1", 64, 1, "L1Loss", {}, { y })
    named("smooth_l1", 65, 1, "SmoothL1Loss", { beta = 0.5 }, { y })
    named("huber", 66, 1, "HuberLoss", { delta = 0.5 }, { y })
    named("binary", 67, 1, "BCELoss", {}, { p }, 0.05, 0.95)
    named("kl", 68, 1, "KLDivLoss", {}, { p })
    named("hinge", 69, 1, "HingeEmbeddingLoss", { margin = 0.5 }, { sign })
    named("ranking", 70, 2, "MarginRankingLoss", { margin = 0.2 }, { sign })
    named("triplet", 71, 3, "TripletMarginLoss", {}, {})
  end
  case("kl_batchmean", 72, 1, function(x) return F.kl_div(x, p, { reduction = "batchmean" }) end)
  case("kl_log_target", 73, 1, function(x) return F.kl_div(x, p:log(), { reduction = "sum", log_target = true }) end)
end)
