-- Figures from PyTorch (spec/peer/fixtures), and the inputs they were computed from.
local random = require "spec.support.random"
local tensors = require "spec.support.tensors"

local fixtures = {}

---@param name string file in spec/peer/fixtures
function fixtures.load(name)
  local here = debug.getinfo(1, "S").source:match("^@(.*)support/fixtures%.lua$")
  return dofile(here .. "peer/fixtures/" .. name .. ".lua")
end

-- A recorded tensor as a reference array.
---@return reference.Array
function fixtures.array(entry)
  local out = { shape = entry.shape }
  for i, x in ipairs(entry.values) do out[i] = x end
  return out
end

-- Runs f on tensors that the generator of `seed` fills, and compares its value, and the gradients of its elements'
-- sum weighted by the generator of seed 99, with the recorded ones.
function fixtures.check(entry, seed, shapes, f, low, high)
  local generator, leaves = random.new(seed), {}
  for i, shape in ipairs(shapes) do
    leaves[i] = tensors.make(tensors.uniform(generator, shape, low or -1, high or 1)):clone():requires_grad_(true)
  end
  local out = f((table.unpack or unpack)(leaves)) -- luacheck: ignore
  tensors.close(out, fixtures.array(entry.value), 1e-11, 1e-12, "value")
  local weights = tensors.make(tensors.uniform(random.new(99), out.shape, -1, 1))
  out:mul(weights):sum():backward()
  for i, gradient in ipairs(entry.gradients) do
    tensors.close(leaves[i].grad, fixtures.array(gradient), 1e-10, 1e-11, "gradient of argument " .. i)
  end
end

return fixtures
