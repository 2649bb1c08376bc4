-- attention.lua: attention and the encoder layer made of it, with PyTorch's parameter names and shapes.

local core = require "ctrain.core"
local F = require "ctrain.nn.functional"
local init = require "ctrain.nn.initializers"
local layers = require "ctrain.nn.layers"
local modules = require "ctrain.nn.module"
local options = require "ctrain.options"

local fail, shape_text = options.fail, options.shape_text
local class, Parameter = modules.class, modules.Parameter

---@class nn.MultiheadAttention: nn.Module
local MultiheadAttention = class "MultiheadAttention"
MultiheadAttention.signature = options.signature("nn.MultiheadAttention", { "embed_dim", "num_heads" },
  { "dropout", "bias", "batch_first", "dtype" }, { dropout = 0, bias = true, batch_first = false })

---Attention in num_heads parts of embed_dim. Inputs are (positions, batch, width), or batch_first.
function MultiheadAttention:init(...)
  local o = MultiheadAttention.signature(...)
  local width = options.integer("nn.MultiheadAttention", "embed_dim", o.embed_dim, 1)
  local heads = options.integer("nn.MultiheadAttention", "num_heads", o.num_heads, 1)
  if width % heads ~= 0 then
    fail("nn.MultiheadAttention: embed_dim %d does not divide into %d heads", width, heads)
  end
  self.embed_dim, self.num_heads, self.batch_first = width, heads, o.batch_first
  self.dropout = options.number("nn.MultiheadAttention", "dropout", o.dropout, 0, 1)
  local dtype = { dtype = o.dtype or "float32" }
  self.in_proj_weight = Parameter(init.xavier_uniform_(core.zeros({ 3 * width, width }, dtype)))
  if o.bias then self.in_proj_bias = Parameter(core.zeros({ 3 * width }, dtype)) end
  self.out_proj = layers.Linear(width, width, { bias = o.bias, dtype = dtype.dtype })
  if o.bias then init.zeros_(self.out_proj.bias) end
end

local forward_arguments = options.signature("MultiheadAttention", { "query" },
  { "key", "value", "attn_mask", "is_causal", "key_padding_mask" }, { is_causal = false })

-- PyTorch's masks say where NOT to look; the functional's say where to.
local function allowed(mask)
  return mask and mask.dtype == "bool" and mask:logical_not() or mask
end

---@param query tensor key and value default to it
---@param ... any key, value, attn_mask (bool: true where attention is forbidden), is_causal,
--- key_padding_mask (batch, keys)
---@return tensor
function MultiheadAttention:forward(query, ...)
  local o = forward_arguments(query, ...)
  local key = o.key or query
  local value = o.value or key
  local width, heads = self.embed_dim, self.num_heads
  for _, t in ipairs { query, key, value } do
    if t.ndim ~= 3 or t.shape[3] ~= width then
      fail("MultiheadAttention: the input is %s; expected 3 dimensions, the last of them %d", shape_text(t), width)
    end
  end
  if not self.batch_first then
    query, key, value = query:transpose(1, 2), key:transpose(1, 2), value:transpose(1, 2)
  end
  local weight, bias = self.in_proj_weight, self.in_proj_bias
  local function project(x, part)
    local y = F.linear(x, weight:narrow(1, part * width + 1, width), bias and bias:narrow(1, part * width + 1, width))
    return y:reshape(y.shape[1], y.shape[2], heads, width / heads):transpose(2, 3)
  end
  local mask = allowed(o.attn_mask)
  if o.key_padding_mask then
    local padding = allowed(o.key_padding_mask):unsqueeze(2):unsqueeze(2)
    if not mask then mask = padding
    elseif mask.dtype == "bool" and padding.dtype == "bool" then mask = mask:logical_and(padding)
    else fail("MultiheadAttention: attn_mask and key_padding_mask must both be bool") end
  end
  local y = F.scaled_dot_product_attention(project(query, 0), project(key, 1), project(value, 2), {
    attn_mask = mask, is_causal = o.is_causal, dropout_p = self.training and self.dropout or 0,
  })
  y = self.out_proj(y:transpose(2, 3):reshape(y.shape[1], y.shape[3], width))
  return self.batch_first and y or y:transpose(1, 2)
end

function MultiheadAttention:extra_repr() return ("%d, heads=%d"):format(self.embed_dim, self.num_heads) end

---@class nn.TransformerEncoderLayer: nn.Module
local EncoderLayer = class "TransformerEncoderLayer"
EncoderLayer.signature = options.signature("nn.TransformerEncoderLayer", { "d_model", "nhead" },
  { "dim_feedforward", "dropout", "activation", "layer_norm_eps", "batch_first", "norm_first", "bias" },
  { dim_feedforward = 2048, dropout = 0.1, activation = "relu", layer_norm_eps = 1e-5, batch_first = false,
    norm_first = false, bias = true })

---Self-attention and a feed-forward network, each with dropout, residual and layer norm.
function EncoderLayer:init(...)
  local o = EncoderLayer.signature(...)
  local width, bias = o.d_model, o.bias
  self.self_attn = MultiheadAttention(width, o.nhead, { dropout = o.dropout, bias = bias, batch_first = o.batch_first })
  self.linear1 = layers.Linear(width, o.dim_feedforward, bias)
  self.dropout = layers.Dropout(o.dropout)
  self.linear2 = layers.Linear(o.dim_feedforward, width, bias)
  self.norm1 = layers.LayerNorm(width, { eps = o.layer_norm_eps, bias = bias })
  self.norm2 = layers.LayerNorm(width, { eps = o.layer_norm_eps, bias = bias })
  self.dropout1 = layers.Dropout(o.dropout)
  self.dropout2 = layers.Dropout(o.dropout)
  self.norm_first = o.norm_first
  if type(o.activation) ~= "function" then
    options.choice("nn.TransformerEncoderLayer", "activation", o.activation, { "relu", "gelu" })
  end
  self.activation = o.activation
end

---@param x tensor
---@param mask tensor? (positions, positions), true where attention is forbidden
function EncoderLayer:forward(x, mask, padding)
  local fn = type(self.activation) == "function" and self.activation or F[self.activation]
  local function attend(y)
    return self.dropout1(self.self_attn(y, { attn_mask = mask, key_padding_mask = padding }))
  end
  local function feed(y) return self.dropout2(self.linear2(self.dropout(fn(self.linear1(y))))) end
  if self.norm_first then
    x = x + attend(self.norm1(x))
    return x + feed(self.norm2(x))
  end
  x = self.norm1(x + attend(x))
  return self.norm2(x + feed(x))
end

return { MultiheadAttention = MultiheadAttention, TransformerEncoderLayer = EncoderLayer }
