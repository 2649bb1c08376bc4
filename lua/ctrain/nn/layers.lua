-- layers.lua: layers and activations as modules. Arguments, defaults, parameter names, shapes and initial values
-- are PyTorch's.

local core = require "ctrain.core"
local F = require "ctrain.nn.functional"
local init = require "ctrain.nn.initializers"
local modules = require "ctrain.nn.module"
local options = require "ctrain.options"

local Parameter, Buffer = modules.Parameter, modules.Buffer
local signature, integer = options.signature, options.integer

local layers = {}

local function define(name, parent)
  local class = modules.class(name, parent)
  layers[name] = class
  return class
end

local function new(shape, dtype) return core.zeros(shape, { dtype = dtype or "float32" }) end

-- ---- Linear and embedding --------------------------------------------------------------------------------

---@class nn.Linear: nn.Module
local Linear = define "Linear"
Linear.signature = signature("nn.Linear", { "in_features", "out_features" }, { "bias", "dtype" }, { bias = true })

---y = x W^T + b, with W (out_features, in_features).
function Linear:init(...)
  local o = Linear.signature(...)
  local inner = integer("nn.Linear", "in_features", o.in_features, 0)
  local outer = integer("nn.Linear", "out_features", o.out_features, 0)
  local bound = inner > 0 and 1 / math.sqrt(inner) or 0
  local weight = new({ outer, inner }, o.dtype)
  if outer > 0 then init.kaiming_uniform_(weight, { a = math.sqrt(5) }) end
  self.weight = Parameter(weight)
  if options.boolean("nn.Linear", "bias", o.bias) then
    self.bias = Parameter(init.uniform_(new({ outer }, o.dtype), -bound, bound))
  end
end

function Linear:forward(x) return F.linear(x, self.weight, self.bias) end

function Linear:extra_repr()
  local shape = self.weight.shape
  return ("%d, %d%s"):format(shape[2], shape[1], self.bias and "" or ", bias=false")
end

---@class nn.Embedding: nn.Module
local Embedding = define "Embedding"
Embedding.signature = signature("nn.Embedding", { "num_embeddings", "embedding_dim" },
  { "padding_idx", "max_norm", "dtype" })

---Rows of a table by index, counted from 0. The row padding_idx starts at zero and stays there.
function Embedding:init(...)
  local o = Embedding.signature(...)
  local rows = integer("nn.Embedding", "num_embeddings", o.num_embeddings, 0)
  local width = integer("nn.Embedding", "embedding_dim", o.embedding_dim, 0)
  if o.max_norm ~= nil then
    options.fail("nn.Embedding: max_norm is not supported: it would rewrite rows in forward; scale the weight after "
      .. "the optimizer's step instead")
  end
  local weight = init.normal_(new({ rows, width }, o.dtype))
  if o.padding_idx ~= nil then
    local row = integer("nn.Embedding", "padding_idx", o.padding_idx)
    if row < -rows or row >= rows then
      options.fail("nn.Embedding: padding_idx is %d; the %d rows count from 0", row, rows)
    end
    self.padding_idx = row < 0 and rows + row or row
    core.no_grad(function() weight:narrow(1, self.padding_idx + 1, 1):zero_() end)
  end
  self.weight = Parameter(weight)
end

function Embedding:forward(index) return F.embedding(index, self.weight, self.padding_idx) end

function Embedding:extra_repr()
  local shape = self.weight.shape
  return ("%d, %d%s"):format(shape[1], shape[2], self.padding_idx and ", padding_idx=" .. self.padding_idx or "")
end

-- ---- Normalisation ---------------------------------------------------------------------------------------

local function extents(name, value)
  local list = {}
  for i, extent in ipairs(type(value) == "table" and value or { value }) do
    list[i] = integer(name, "normalized_shape", extent, 1)
  end
  return list
end

---@class nn.LayerNorm: nn.Module
local LayerNorm = define "LayerNorm"
LayerNorm.signature = signature("nn.LayerNorm", { "normalized_shape" },
  { "eps", "elementwise_affine", "bias", "dtype" }, { eps = 1e-5, elementwise_affine = true, bias = true })

---Mean 0 and variance 1 over the last dimensions, then a weight and a bias for each element.
function LayerNorm:init(...)
  local o = LayerNorm.signature(...)
  local shape = extents("nn.LayerNorm", o.normalized_shape)
  self.normalized_shape, self.eps = shape, options.number("nn.LayerNorm", "eps", o.eps, 0)
  if o.elementwise_affine then
    self.weight = Parameter(init.ones_(new(shape, o.dtype)))
    if o.bias then self.bias = Parameter(new(shape, o.dtype)) end
  end
end

function LayerNorm:forward(x) return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps) end

function LayerNorm:extra_repr() return options.shape_text(self.normalized_shape) end

---@class nn.RMSNorm: nn.Module
local RMSNorm = define "RMSNorm"
RMSNorm.signature = signature("nn.RMSNorm", { "normalized_shape" }, { "eps", "elementwise_affine", "dtype" },
  { elementwise_affine = true })

---The input over its root mean square in the last dimensions, times a weight for each element.
function RMSNorm:init(...)
  local o = RMSNorm.signature(...)
  local shape = extents("nn.RMSNorm", o.normalized_shape)
  self.normalized_shape, self.eps = shape, o.eps
  if o.elementwise_affine then self.weight = Parameter(init.ones_(new(shape, o.dtype))) end
end

function RMSNorm:forward(x) return F.rms_norm(x, self.normalized_shape, self.weight, self.eps) end

function RMSNorm:extra_repr() return options.shape_text(self.normalized_shape) end

---@class nn.GroupNorm: nn.Module
local GroupNorm = define "GroupNorm"
GroupNorm.signature = signature("nn.GroupNorm", { "num_groups", "num_channels" }, { "eps", "affine", "dtype" },
  { eps = 1e-5, affine = true })

---Mean 0 and variance 1 in each group of channels of (N, C, ...), then a weight and a bias a channel.
function GroupNorm:init(...)
  local o = GroupNorm.signature(...)
  self.num_groups = integer("nn.GroupNorm", "num_groups", o.num_groups, 1)
  self.num_channels = integer("nn.GroupNorm", "num_channels", o.num_channels, 1)
  if self.num_channels % self.num_groups ~= 0 then
    options.fail("nn.GroupNorm: %d channels do not divide into %d groups", self.num_channels, self.num_groups)
  end
  self.eps = options.number("nn.GroupNorm", "eps", o.eps, 0)
  if o.affine then
    self.weight = Parameter(init.ones_(new({ self.num_channels }, o.dtype)))
    self.bias = Parameter(new({ self.num_channels }, o.dtype))
  end
end

function GroupNorm:forward(x) return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps) end

function GroupNorm:extra_repr() return self.num_groups .. ", " .. self.num_channels end

local function batch_norm(name, ranks)
  local BatchNorm = define(name)
  BatchNorm.signature = signature("nn." .. name, { "num_features" },
    { "eps", "momentum", "affine", "track_running_stats", "dtype" },
    { eps = 1e-5, momentum = 0.1, affine = true, track_running_stats = true })

  ---Mean 0 and variance 1 by channel over the batch, with running statistics for evaluation.
  function BatchNorm:init(...)
    local o = BatchNorm.signature(...)
    local features = integer("nn." .. name, "num_features", o.num_features, 1)
    self.eps = options.number("nn." .. name, "eps", o.eps, 0)
    self.momentum = options.number("nn." .. name, "momentum", o.momentum, 0, 1)
    self.num_features = features
    if o.affine then
      self.weight = Parameter(init.ones_(new({ features }, o.dtype)))
      self.bias = Parameter(new({ features }, o.dtype))
    end
    if o.track_running_stats then
      self.running_mean = Buffer(new({ features }, o.dtype))
      self.running_var = Buffer(init.ones_(new({ features }, o.dtype)))
      self.num_batches_tracked = Buffer(new({}, "int64"))
    end
  end

  function BatchNorm:forward(x)
    local shape = x.shape
    if not ranks[#shape] or shape[2] ~= self.num_features then
      options.fail("%s: the input is %s; dim 2 must be the %d channels%s", name, options.shape_text(shape),
        self.num_features, ranks[#shape] and "" or " of as many dimensions as the layer's name says")
    end
    if self.training and self.num_batches_tracked then self.num_batches_tracked:add_(1) end
    return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, self.training,
      self.momentum, self.eps)
  end

  function BatchNorm:extra_repr() return tostring(self.num_features) end
end

batch_norm("BatchNorm1d", { [2] = true, [3] = true })
batch_norm("BatchNorm2d", { [4] = true })

-- ---- Layers without parameters ---------------------------------------------------------------------------

---@class nn.Dropout: nn.Module
local Dropout = define "Dropout"
Dropout.signature = signature("nn.Dropout", {}, { "p" }, { p = 0.5 })

---In training, zeroes elements with probability p and scales the rest by 1 / (1 - p).
function Dropout:init(...)
  self.p = options.number("nn.Dropout", "p", Dropout.signature(...).p, 0, 1)
end

function Dropout:forward(x) return F.dropout(x, self.p, self.training) end

function Dropout:extra_repr() return ("p=%g"):format(self.p) end

---@class nn.Flatten: nn.Module
local Flatten = define "Flatten"
Flatten.signature = signature("nn.Flatten", {}, { "start_dim", "end_dim" }, { start_dim = 2, end_dim = -1 })

---Joins the dimensions from start_dim (2 unless told: all but the batch) to end_dim.
function Flatten:init(...)
  local o = Flatten.signature(...)
  self.start_dim = integer("nn.Flatten", "start_dim", o.start_dim)
  self.end_dim = integer("nn.Flatten", "end_dim", o.end_dim)
end

function Flatten:forward(x) return x:flatten(self.start_dim, self.end_dim) end

local Unflatten = define "Unflatten"
Unflatten.signature = signature("nn.Unflatten", { "dim", "unflattened_size" }, {})

---One dimension seen as several.
function Unflatten:init(...)
  local o = Unflatten.signature(...)
  self.unflatten_dim, self.unflattened_size = o.dim, o.unflattened_size
end

function Unflatten:forward(x) return x:unflatten(self.unflatten_dim, self.unflattened_size) end

local Identity = define "Identity"

function Identity.forward(_, x) return x end

-- An activation with named options, which it passes to fn in their order.
local function activation(name, fn, names, defaults)
  local class = define(name)
  names = names or {}
  class.signature = signature("nn." .. name, {}, names, defaults)
  function class:init(...)
    local o = class.signature(...)
    for _, key in ipairs(names) do self[key] = o[key] end
  end

  local count, first, second = #names, names[1], names[2]
  function class:forward(x)
    if count == 0 then return fn(x) end
    return fn(x, self[first], second and self[second])
  end

  function class:extra_repr()
    local texts = {}
    for _, key in ipairs(names) do
      if self[key] ~= nil and self[key] ~= (defaults or {})[key] then
        texts[#texts + 1] = key .. "=" .. tostring(self[key])
      end
    end
    return table.concat(texts, ", ")
  end
end

activation("ReLU", F.relu)
activation("ReLU6", F.relu6)
activation("Tanh", F.tanh)
activation("Sigmoid", F.sigmoid)
activation("GELU", F.gelu, { "approximate" }, { approximate = "none" })
activation("SiLU", F.silu)
activation("Mish", F.mish)
activation("Softplus", F.softplus, { "beta", "threshold" }, { beta = 1, threshold = 20 })
activation("LogSigmoid", F.logsigmoid)
activation("Hardswish", F.hardswish)
activation("Hardsigmoid", F.hardsigmoid)
activation("Hardtanh", F.hardtanh, { "min_val", "max_val" }, { min_val = -1, max_val = 1 })
activation("LeakyReLU", F.leaky_relu, { "negative_slope" }, { negative_slope = 0.01 })
activation("ELU", F.elu, { "alpha" }, { alpha = 1 })
activation("GLU", F.glu, { "dim" }, { dim = -1 })
activation("Softmax", F.softmax, { "dim" }, { dim = -1 })
activation("LogSoftmax", F.log_softmax, { "dim" }, { dim = -1 })

return layers
