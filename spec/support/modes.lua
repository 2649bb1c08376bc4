-- Runs a body eagerly and as a traced step, for specs that must hold in both.
local ct = require "ctrain"

local modes = {}

-- Calls define(name, step): `step` turns a function of tensors into one that runs in that mode. Traced, every call
-- after the first is a replay.
---@param define fun(name: string, step: fun(fn: function): function)
function modes.each(define)
  define("eagerly", function(fn)
    return fn
  end)
  define("in a traced step", function(fn)
    return ct.trace(fn, { compile = false })
  end)
end

-- A traced step that runs compiled from its second call on. Each one costs a start of the compiler.
---@param fn function
---@return function
function modes.compiled(fn)
  return ct.trace(fn, { wait = true })
end

return modes
