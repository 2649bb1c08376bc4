-- functional.lua: ct.nn.functional, layers without parameters of their own. Formulas and defaults are PyTorch's.

local core = require "ctrain.core"
local options = require "ctrain.options"
require "ctrain.tensor"

local fail, shape_text, signature = options.fail, options.shape_text, options.signature
local Tensor, where = core.Tensor, core.where

local F = {}

-- Half types are widened for formulas that sum many elements or subtract near ones.
local function widened(x, compute)
  if x.dtype == "float16" or x.dtype == "bfloat16" then return compute(x:to("float32")):to(x.dtype) end
  return compute(x)
end

-- ---- Activations -----------------------------------------------------------------------------------------

F.relu, F.sigmoid, F.tanh = Tensor.relu, Tensor.sigmoid, Tensor.tanh
F.softmax, F.log_softmax = Tensor.softmax, Tensor.log_softmax
F.one_hot, F.pad = Tensor.one_hot, Tensor.pad

---x * P(X <= x) for a standard normal X; approximate = "tanh" for the cubic approximation.
---@param approximate "none"|"tanh"|nil
function F.gelu(x, approximate)
  if type(approximate) == "table" then
    approximate = options.check(approximate, { approximate = "none" }, "gelu").approximate
  end
  approximate = options.choice("gelu", "approximate", approximate or "none", { "none", "tanh" })
  if approximate == "tanh" then
    local inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
    return x * 0.5 * (inner:tanh() + 1)
  end
  return x * 0.5 * ((x * math.sqrt(0.5)):erf() + 1)
end

---x * sigmoid(x), also called swish.
function F.silu(x) return x * x:sigmoid() end

function F.leaky_relu(x, negative_slope)
  return where(x:gt(0), x, x * (negative_slope or 0.01))
end

---@param alpha number? default 1
function F.elu(x, alpha)
  -- exp is taken of what is not positive only: elsewhere it would overflow, and with it the gradient
  local low = where(x:gt(0), 0, x)
  return where(x:gt(0), x, low:expm1() * (alpha or 1))
end

---log(1 + exp(beta x)) / beta, and x itself where beta x is beyond the threshold.
function F.softplus(x, beta, threshold)
  beta, threshold = beta or 1, threshold or 20
  local scaled = x * beta
  local linear = scaled:gt(threshold)
  local soft = scaled:maximum(0) + (-scaled:abs()):exp():log1p()
  return where(linear, x, soft / beta)
end

---log(sigmoid(x)) without underflow.
function F.logsigmoid(x) return x:minimum(0) - (-x:abs()):exp():log1p() end

function F.mish(x) return x * F.softplus(x):tanh() end

function F.hardsigmoid(x) return (x / 6 + 0.5):clamp(0, 1) end

function F.hardswish(x) return x * F.hardsigmoid(x) end

function F.hardtanh(x, low, high) return x:clamp(low or -1, high or 1) end

function F.relu6(x) return x:clamp(0, 6) end

---The first half of a dimension times the sigmoid of the second.
---@param dim integer? default -1
function F.glu(x, dim)
  dim = options.dim("glu", dim or -1, x.ndim, x.shape)
  local extent = x.shape[dim]
  if extent % 2 ~= 0 then fail("glu: dim %d of a %s tensor is not even", dim, shape_text(x)) end
  local half = extent / 2
  return x:narrow(dim, 1, half) * x:narrow(dim, half + 1, half):sigmoid()
end

-- ---- Layers ----------------------------------------------------------------------------------------------

---x times the transpose of weight (out, in), plus bias (out).
function F.linear(x, weight, bias)
  options.tensor("linear", "input", x)
  local shape, inner = x.shape, weight.shape[2]
  if shape[#shape] ~= inner then
    fail("linear: the input is %s; its last extent must be %d, for a weight of %s", shape_text(shape), inner,
      shape_text(weight))
  end
  local y = x:matmul(weight:t())
  return bias and y + bias or y
end

---Sets elements to 0 with probability p and scales the rest, so that the mean stays; x itself when not training.
---@param p number? default 0.5
---@param training boolean? default true
function F.dropout(x, p, training)
  p = options.number("dropout", "p", p or 0.5, 0, 1)
  if not options.tensor("dropout", "input", x):is_floating_point() then
    fail("dropout: the input must be floating, not %s", x.dtype)
  end
  if training == false or p == 0 then return x end
  if p == 1 then return x * 0 end
  local kept = core.rand(x.shape):ge(p)
  return x * kept:to(x.dtype) * (1 / (1 - p))
end

---Rows of weight (rows, width) by index, counted from 0. The row padding_idx gets no gradient.
---@param index tensor of integers, any shape
function F.embedding(index, weight, padding_idx)
  options.tensor("embedding", "input", index)
  if index.dtype ~= "int64" and index.dtype ~= "int32" then
    if index:is_floating_point() or index.dtype == "bool" then
      fail("embedding: the input holds row numbers; it must be int64 or int32, not %s", index.dtype)
    end
    index = index:to("int64")
  end
  local shape = index.shape
  shape[#shape + 1] = weight.shape[2]
  local rows = weight:index_select(1, index:flatten()):reshape(shape)
  if padding_idx then rows = where(index:eq(padding_idx):unsqueeze(-1), rows:detach(), rows) end
  return rows
end

-- The last dimensions of x, which must have the extents of `normalized`.
local function last_dims(where_, x, normalized)
  local shape, dims = x.shape, {}
  for i = 1, #normalized do
    local d = #shape - #normalized + i
    if d < 1 or shape[d] ~= normalized[i] then
      fail("%s: the input is %s; its last extents must be %s", where_, shape_text(shape), shape_text(normalized))
    end
    dims[i] = d
  end
  return dims
end

---Mean 0 and variance 1 over the last dimensions, then weight and bias.
function F.layer_norm(x, normalized_shape, weight, bias, eps)
  local dims = last_dims("layer_norm", x, normalized_shape)
  local y = widened(x, function(wide)
    local d = wide - wide:mean(dims, true)
    return d * ((d * d):mean(dims, true) + (eps or 1e-5)):rsqrt()
  end)
  if weight then y = y * weight end
  return bias and y + bias or y
end

---x over its root mean square in the last dimensions, then weight.
function F.rms_norm(x, normalized_shape, weight, eps)
  local dims = last_dims("rms_norm", x, normalized_shape)
  local small = eps or (x.dtype == "float64" and 2 ^ -52 or 2 ^ -23)
  local y = widened(x, function(wide)
    return wide * ((wide * wide):mean(dims, true) + small):rsqrt()
  end)
  return weight and y * weight or y
end

-- A vector over the channels, laid along dimension 2 of x.
local function along_channels(vector, x)
  local shape = {}
  for d = 1, x.ndim do shape[d] = d == 2 and x.shape[2] or 1 end
  return vector:reshape(shape)
end

---Mean 0 and variance 1 over the channels of each group, then weight and bias by channel. x is (N, C, ...).
function F.group_norm(x, num_groups, weight, bias, eps)
  local shape = x.shape
  if #shape < 2 or shape[2] % num_groups ~= 0 then
    fail("group_norm: the input is %s; dim 2 must divide into %d groups", shape_text(shape), num_groups)
  end
  local y = widened(x, function(wide)
    local grouped = wide:reshape(shape[1], num_groups, -1)
    local d = grouped - grouped:mean(3, true)
    return (d * ((d * d):mean(3, true) + (eps or 1e-5)):rsqrt()):reshape(shape)
  end)
  if weight then y = y * along_channels(weight, x) end
  return bias and y + along_channels(bias, x) or y
end

---Mean 0 and variance 1 by channel, over all other dimensions; x is (N, C, ...). In training, the running
---statistics move towards the batch's by `momentum`; otherwise they are used.
function F.batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps)
  local shape = x.shape
  if #shape < 2 then fail("batch_norm: the input is %s; it needs 2 or more dimensions", shape_text(shape)) end
  local dims, count = {}, 1
  for d = 1, #shape do
    if d ~= 2 then
      dims[#dims + 1] = d
      count = count * shape[d]
    end
  end
  if training and count <= 1 then
    fail("batch_norm: the input is %s; training needs more than one value a channel", shape_text(shape))
  end
  local y = widened(x, function(wide)
    local mean, var, d
    if training or not running_mean then
      mean = wide:mean(dims, true)
      d = wide - mean
      var = (d * d):mean(dims, true)
      if training and running_mean then
        core.no_grad(function()
          running_mean:copy_(running_mean * (1 - momentum) + mean:flatten() * momentum)
          running_var:copy_(running_var * (1 - momentum) + var:flatten() * (momentum * count / (count - 1)))
        end)
      end
    else
      d, var = wide - along_channels(running_mean, wide), along_channels(running_var, wide)
    end
    return d * (var + (eps or 1e-5)):rsqrt()
  end)
  if weight then y = y * along_channels(weight, x) end
  return bias and y + along_channels(bias, x) or y
end

local attention_arguments = signature("scaled_dot_product_attention", { "query", "key", "value" },
  { "attn_mask", "dropout_p", "is_causal", "scale" }, { dropout_p = 0, is_causal = false })

---softmax(query key^T / sqrt(width)) value over the last two dimensions (positions, width). A bool mask is true
---where a position takes part; a float mask is added.
function F.scaled_dot_product_attention(...)
  local o = attention_arguments(...)
  local q, k, v = o.query, o.key, o.value
  local width, rows, columns = q.shape[q.ndim], q.shape[q.ndim - 1], k.shape[k.ndim - 1]
  local scores = (q * (o.scale or 1 / math.sqrt(width))):matmul(k:transpose(-2, -1))
  if o.is_causal then
    if o.attn_mask then fail("scaled_dot_product_attention: give attn_mask or is_causal, not both") end
    local seen = core.arange(columns):le(core.arange(rows):unsqueeze(-1))
    scores = where(seen, scores, -math.huge)
  elseif o.attn_mask then
    scores = o.attn_mask.dtype == "bool" and where(o.attn_mask, scores, -math.huge) or scores + o.attn_mask
  end
  return F.dropout(scores:softmax(-1), o.dropout_p):matmul(v)
end

local normalize_arguments = signature("normalize", { "input" }, { "p", "dim", "eps" }, { p = 2, dim = 2, eps = 1e-12 })

---x / max(norm, eps) along a dimension.
function F.normalize(...)
  local o = normalize_arguments(...)
  return o.input / o.input:norm(o.p, o.dim, true):clamp_min(o.eps)
end

local cosine_arguments = signature("cosine_similarity", { "x1", "x2" }, { "dim", "eps" }, { dim = 2, eps = 1e-8 })

---The cosine of the angle between vectors along a dimension.
function F.cosine_similarity(...)
  local o = cosine_arguments(...)
  local a, b = o.x1, o.x2
  return (a / a:norm(2, o.dim, true):clamp_min(o.eps) * (b / b:norm(2, o.dim, true):clamp_min(o.eps))):sum(o.dim)
end

for name, loss in pairs(require "ctrain.nn.losses") do F[name] = loss end

return F
