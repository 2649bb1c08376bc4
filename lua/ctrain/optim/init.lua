-- optim: optimizers, with PyTorch's formulas, defaults and state layout.

local optim = { Optimizer = require "ctrain.optim.optimizer" }
local adam = require "ctrain.optim.adam"

optim.SGD = require("ctrain.optim.sgd").SGD
optim.Adam, optim.AdamW = adam.Adam, adam.AdamW

for _, topic in ipairs { "adam_family", "adaptive" } do
  for name, class in pairs(require("ctrain.optim." .. topic)) do optim[name] = class end
end

return optim
