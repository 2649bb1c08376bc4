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

return nn
