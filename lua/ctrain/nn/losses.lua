-- losses.lua: the losses of ct.nn.functional. Arguments after input and target come by position in PyTorch's
-- order of use or by name; reduction is "mean", "sum" or "none".

local core = require "ctrain.core"
local options = require "ctrain.options"

local fail, shape_text, signature = options.fail, options.shape_text, options.signature
local where = core.where

local losses = {}
local reductions = { "mean", "sum", "none" }

local function reduced(name, loss, reduction)
  options.choice(name, "reduction", reduction, reductions)
  if reduction == "mean" then return loss:mean() end
  return reduction == "sum" and loss:sum() or loss
end

-- Input and target of one shape; a silent broadcast of (N) against (N, 1) is a bug in every script that has it.
local function pair(name, input, target)
  options.tensor(name, "input", input)
  if type(target) == "number" then return end
  options.tensor(name, "target", target)
  if target.ndim > 0 and shape_text(input) ~= shape_text(target) then
    fail("%s: the input is %s and the target is %s; the shapes must be equal", name, shape_text(input),
      shape_text(target))
  end
end

-- A loss of input - target, element by element.
local function define(name, optional, defaults, formula)
  defaults.reduction = "mean"
  local reader = signature(name, { "input", "target" }, optional, defaults)
  losses[name] = function(...)
    local o = reader(...)
    pair(name, o.input, o.target)
    return reduced(name, formula(o.input, o.target, o), o.reduction)
  end
end

define("mse_loss", { "reduction" }, {}, function(x, y)
  local d = x - y
  return d * d
end)

define("l1_loss", { "reduction" }, {}, function(x, y) return (x - y):abs() end)

define("smooth_l1_loss", { "reduction", "beta" }, { beta = 1 }, function(x, y, o)
  local beta = options.number("smooth_l1_loss", "beta", o.beta, 0)
  local d = (x - y):abs()
  if beta == 0 then return d end
  return where(d:lt(beta), d * d * (0.5 / beta), d - 0.5 * beta)
end)

define("huber_loss", { "reduction", "delta" }, { delta = 1 }, function(x, y, o)
  local delta = options.number("huber_loss", "delta", o.delta, 0)
  local d = (x - y):abs()
  return where(d:le(delta), d * d * 0.5, (d - 0.5 * delta) * delta)
end)

define("binary_cross_entropy_with_logits", { "weight", "reduction", "pos_weight" }, {}, function(x, y, o)
  local softly = (-x:abs()):exp():log1p() + (-x):maximum(0) -- log(1 + exp(-x))
  if o.pos_weight then softly = softly * ((o.pos_weight - 1) * y + 1) end
  local loss = (1 - y) * x + softly
  return o.weight and loss * o.weight or loss
end)

define("binary_cross_entropy", { "weight", "reduction" }, {}, function(x, y, o)
  -- logarithms are held above -100, as PyTorch does
  local loss = -(y * x:log():clamp_min(-100) + (1 - y) * (-x):log1p():clamp_min(-100))
  return o.weight and loss * o.weight or loss
end)

local kl_arguments = signature("kl_div", { "input", "target" }, { "reduction", "log_target" },
  { reduction = "mean", log_target = false })

---target * (log(target) - input), where input holds logarithms; "batchmean" divides the sum by the rows.
function losses.kl_div(...)
  local o = kl_arguments(...)
  pair("kl_div", o.input, o.target)
  local loss
  if o.log_target then
    loss = o.target:exp() * (o.target - o.input)
  else
    local none = o.target:eq(0)
    loss = where(none, 0, o.target * where(none, 1, o.target):log() - o.target * o.input)
  end
  if o.reduction == "batchmean" then return loss:sum() / o.input.shape[1] end
  return reduced("kl_div", loss, o.reduction)
end

-- ---- Classes ---------------------------------------------------------------------------------------------

-- The dimension of the classes in an input (C), (N, C) or (N, C, ...).
local function class_dim(name, input)
  options.tensor(name, "input", input)
  if input.ndim == 0 then fail("%s: the input is a scalar; expected (C), (N, C) or (N, C, ...)", name) end
  return input.ndim == 1 and 1 or 2
end

local function check_labels(name, input, target, dim)
  options.tensor(name, "target", target)
  local due = input.shape
  table.remove(due, dim)
  if target:is_floating_point() or target.dtype == "bool" then
    fail("%s: the target holds class numbers; it must be an integer tensor, not %s", name, target.dtype)
  elseif shape_text(target) ~= shape_text(due) then
    fail("%s: the input is %s and the target is %s; expected a target of %s", name, shape_text(input),
      shape_text(target), shape_text(due))
  end
end

local function check_weight(name, weight, classes)
  if weight == nil then return end
  options.tensor(name, "weight", weight)
  if shape_text(weight) ~= tostring(classes) then
    fail("%s: weight is %s; expected one for each of the %d classes", name, shape_text(weight), classes)
  end
end

-- The elements at labels; an error of gather is told in the loss's words.
local function picked(name, logs, labels, dim)
  local ok, result = pcall(logs.gather, logs, dim, labels)
  if ok then return result end
  local label = tostring(result):match("index (%-?%d+) at position")
  if not label then error(result, 0) end
  fail("%s: the target has the label %s; labels count from 0, and the input has %d classes", name, label,
    logs.shape[dim])
end

-- The loss of log-probabilities at labels; smoothing spreads that share of each label over all classes.
local function label_loss(name, logs, target, dim, o, smoothing)
  check_labels(name, logs, target, dim)
  local classes = logs.shape[dim]
  check_weight(name, o.weight, classes)
  options.choice(name, "reduction", o.reduction, reductions)
  if target.dtype ~= "int32" and target.dtype ~= "int64" then target = target:to("int64") end
  local ignored = target:eq(options.integer(name, "ignore_index", o.ignore_index))
  local labels = where(ignored, core.zeros({}, { dtype = target.dtype }), target)
  local loss = -picked(name, logs, labels:unsqueeze(dim), dim):squeeze(dim)
  local share -- of each label in the mean
  if o.weight then
    share = o.weight:index_select(1, labels:flatten()):reshape(labels.shape)
    loss = loss * share
    share = where(ignored, 0, share)
  end
  loss = where(ignored, 0, loss)
  if smoothing > 0 then
    local spread = logs
    if o.weight then
      local shape = {}
      for d = 1, logs.ndim do shape[d] = d == dim and classes or 1 end
      spread = logs * o.weight:reshape(shape)
    end
    loss = loss * (1 - smoothing) - where(ignored, 0, spread:sum(dim)) * (smoothing / classes)
  end
  if o.reduction == "none" then return loss end
  local total = loss:sum()
  if o.reduction == "sum" then return total end
  return total / (share and share:sum() or ignored:logical_not():to(logs.dtype):sum())
end

local nll_arguments = signature("nll_loss", { "input", "target" }, { "weight", "ignore_index", "reduction" },
  { ignore_index = -100, reduction = "mean" })

---Minus the log-probability at each label; labels count from 0.
function losses.nll_loss(...)
  local o = nll_arguments(...)
  return label_loss("nll_loss", o.input, o.target, class_dim("nll_loss", o.input), o, 0)
end

local cross_entropy_arguments = signature("cross_entropy", { "input", "target" },
  { "weight", "ignore_index", "reduction", "label_smoothing" },
  { ignore_index = -100, reduction = "mean", label_smoothing = 0 })

---Cross entropy of logits (C), (N, C) or (N, C, ...) and labels, which count from 0, or probabilities of the
---input's shape.
function losses.cross_entropy(...)
  local o = cross_entropy_arguments(...)
  local name, input, target = "cross_entropy", o.input, o.target
  local dim = class_dim(name, input)
  local smoothing = options.number(name, "label_smoothing", o.label_smoothing, 0, 1)
  options.tensor(name, "target", target)
  if not input:is_floating_point() then fail("%s: the input must be floating, not %s", name, input.dtype) end
  if not target:is_floating_point() then
    check_labels(name, input, target, dim)
    return label_loss(name, input:log_softmax(dim), target, dim, o, smoothing)
  end
  pair(name, input, target)
  local classes = input.shape[dim]
  check_weight(name, o.weight, classes)
  if smoothing > 0 then target = target * (1 - smoothing) + smoothing / classes end
  local loss = input:log_softmax(dim) * target
  if o.weight then
    local shape = {}
    for d = 1, input.ndim do shape[d] = d == dim and classes or 1 end
    loss = loss * o.weight:reshape(shape)
  end
  loss = -loss:sum(dim)
  return reduced(name, loss, o.reduction) -- the mean is over samples
end

-- ---- Distances between embeddings -------------------------------------------------------------------------

local hinge_arguments = signature("hinge_embedding_loss", { "input", "target" }, { "margin", "reduction" },
  { margin = 1, reduction = "mean" })

---x where the target is 1, max(0, margin - x) where it is -1.
function losses.hinge_embedding_loss(...)
  local o = hinge_arguments(...)
  pair("hinge_embedding_loss", o.input, o.target)
  local loss = where(o.target:eq(1), o.input, (o.margin - o.input):relu())
  return reduced("hinge_embedding_loss", loss, o.reduction)
end

local ranking_arguments = signature("margin_ranking_loss", { "input1", "input2", "target" },
  { "margin", "reduction" }, { margin = 0, reduction = "mean" })

function losses.margin_ranking_loss(...)
  local o = ranking_arguments(...)
  return reduced("margin_ranking_loss", (-o.target * (o.input1 - o.input2) + o.margin):relu(), o.reduction)
end

local triplet_arguments = signature("triplet_margin_loss", { "anchor", "positive", "negative" },
  { "margin", "p", "reduction" }, { margin = 1, p = 2, reduction = "mean" })

---max(0, distance to positive - distance to negative + margin), by row.
function losses.triplet_margin_loss(...)
  local o = triplet_arguments(...)
  local function distance(a, b) return (a - b + 1e-6):norm(o.p, -1) end
  local loss = (distance(o.anchor, o.positive) - distance(o.anchor, o.negative) + o.margin):relu()
  return reduced("triplet_margin_loss", loss, o.reduction)
end

return losses
