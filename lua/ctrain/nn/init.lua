-- nn: layers, losses, containers, initial values, and the class that models are made of.

local modules = require "ctrain.nn.module"
require "ctrain.nn.draw"

local nn = {
  Module = modules.Module,
  Parameter = modules.Parameter,
  Buffer = modules.Buffer,
  class = modules.class,
  is_module = modules.is_module,
  is_parameter = modules.is_parameter,
  functional = require "ctrain.nn.functional",
  init = require "ctrain.nn.initializers",
  utils = require "ctrain.nn.clip",
}

for _, topic in ipairs { "containers", "layers", "attention", "criteria" } do
  for name, class in pairs(require("ctrain.nn." .. topic)) do nn[name] = class end
end

-- Losses and activations are functions of ct.nn as well: ct.nn.cross_entropy(logits, labels).
for name, value in pairs(nn.functional) do
  if nn[name] == nil then nn[name] = value end
end
nn.bce_with_logits = nn.functional.binary_cross_entropy_with_logits

return nn
