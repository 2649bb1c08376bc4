-- criteria.lua: losses as modules: nn.CrossEntropyLoss{label_smoothing = 0.1}(logits, labels).

local F = require "ctrain.nn.functional"
local modules = require "ctrain.nn.module"
local options = require "ctrain.options"

local criteria = {}

-- A module that keeps named options and calls fn(input, target, options). Class weights are buffers.
local function define(name, fn, names, defaults)
  local class = modules.class(name)
  criteria[name] = class
  defaults = defaults or {}
  defaults.reduction = "mean"
  class.signature = options.signature("nn." .. name, {}, names, defaults)
  function class:init(...)
    local o = class.signature(...)
    for _, key in ipairs(names) do
      local value = o[key]
      self[key] = options.is_tensor(value) and modules.Buffer(value) or value
    end
    options.choice("nn." .. name, "reduction", o.reduction, { "mean", "sum", "none", "batchmean" })
  end

  function class:forward(...)
    local given, n = {}, select("#", ...)
    for _, key in ipairs(names) do given[key] = self[key] end
    if n == 3 then
      local a, b, c = ...
      return fn(a, b, c, given)
    end
    local input, target = ...
    return fn(input, target, given)
  end
end

define("CrossEntropyLoss", F.cross_entropy, { "weight", "ignore_index", "reduction", "label_smoothing" },
  { ignore_index = -100, label_smoothing = 0 })
define("NLLLoss", F.nll_loss, { "weight", "ignore_index", "reduction" }, { ignore_index = -100 })
define("MSELoss", F.mse_loss, { "reduction" })
define("L1Loss", F.l1_loss, { "reduction" })
define("SmoothL1Loss", F.smooth_l1_loss, { "reduction", "beta" }, { beta = 1 })
define("HuberLoss", F.huber_loss, { "reduction", "delta" }, { delta = 1 })
define("BCELoss", F.binary_cross_entropy, { "weight", "reduction" })
define("BCEWithLogitsLoss", F.binary_cross_entropy_with_logits, { "weight", "reduction", "pos_weight" })
define("KLDivLoss", F.kl_div, { "reduction", "log_target" }, { log_target = false })
define("HingeEmbeddingLoss", F.hinge_embedding_loss, { "margin", "reduction" }, { margin = 1 })
define("MarginRankingLoss", F.margin_ranking_loss, { "margin", "reduction" }, { margin = 0 })
define("TripletMarginLoss", F.triplet_margin_loss, { "margin", "p", "reduction" }, { margin = 1, p = 2 })

return criteria
