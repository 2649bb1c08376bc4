-- Gradients against central differences in float64.
local ct = require "ctrain"
local reference = require "spec.support.reference"
local tensors = require "spec.support.tensors"

local gradient = {}
local unpack = table.unpack or unpack -- luacheck: ignore

-- Fixed weights that make one number of any result, so that no two elements' gradients look alike.
local function weights(shape)
  return reference.array(shape, function(i)
    return math.sin(i * 1.7) + 0.3
  end)
end

local function weighted(f, arrays)
  local arguments = {}
  for i, a in ipairs(arrays) do
    arguments[i] = tensors.make(a, "float64")
  end
  local out = f(unpack(arguments))
  local seen, w, terms = tensors.read(out), weights(out.shape), {}
  for i = 1, #seen do
    terms[i] = seen[i] * w[i]
  end
  return reference.sum(terms)
end

-- A leaf of the array's elements, and the view of it that f is given: "transposed" lies in memory in reverse order.
local function leaf(a, layout)
  local reverse = {}
  for d = 1, #a.shape do
    reverse[d] = #a.shape + 1 - d
  end
  if layout ~= "transposed" or #reverse < 2 then
    local t = tensors.make(a, "float64"):clone():requires_grad_(true)
    return t, t, reverse
  end
  local t = tensors.make(reference.permute(a, reverse), "float64"):clone():requires_grad_(true)
  return t, t:permute(reverse), reverse
end

-- Fails unless d(weighted sum of f(...))/d(every element of every array) agrees with central differences.
---@param f fun(...): any from tensors to a tensor
---@param arrays reference.Array[]
---@param options? { layout: string, step: number, tolerance: number, what: string }
function gradient.check(f, arrays, options)
  options = options or {}
  local h, tolerance = options.step or 1e-5, options.tolerance or 2e-7
  local leaves, arguments, orders = {}, {}, {}
  for i, a in ipairs(arrays) do
    leaves[i], arguments[i], orders[i] = leaf(a, options.layout)
  end
  local out = f(unpack(arguments))
  local w = tensors.make(weights(out.shape), "float64")
  out:mul(w):sum():backward()
  for k, a in ipairs(arrays) do
    local got = leaves[k].grad
    if got == nil then
      error(("%sargument %d received no gradient"):format(options.what and options.what .. ": " or "", k), 2)
    end
    if arguments[k] ~= leaves[k] then
      got = got:permute(orders[k])
    end
    tensors.has_shape(got, a.shape, 2)
    local seen = tensors.read(got)
    for i = 1, #a do
      local kept = a[i]
      local step = h * math.max(1, math.abs(kept))
      a[i] = kept + step
      local above = weighted(f, arrays)
      a[i] = kept - step
      local below = weighted(f, arrays)
      a[i] = kept
      local expected = (above - below) / (2 * step)
      if not (math.abs(seen[i] - expected) <= tolerance * math.max(1, math.abs(expected))) then -- luacheck: ignore 581
        error(("%sthe gradient of argument %d at element %d of %s is %.12g, differences give %.12g"):format(
          options.what and options.what .. ": " or "", k, i, tensors.shape_text(a.shape), seen[i], expected), 2)
      end
    end
  end
  return true
end

-- Fails unless the second derivatives, through create_graph, agree with differences of the first.
function gradient.check_second(f, a, options)
  options = options or {}
  local x = tensors.make(a, "float64"):clone():requires_grad_(true)
  local function first(t)
    local out = f(t)
    local w = tensors.make(weights(out.shape), "float64")
    local g = ct.grad({ out:mul(w):sum() }, { t }, { create_graph = true })
    return type(g) == "table" and g[1] or g
  end
  local g = first(x)
  local v = tensors.make(weights(g.shape), "float64")
  local second = ct.grad({ g:mul(v):sum() }, { x }, {})
  second = type(second) == "table" and second[1] or second
  local seen, h = tensors.read(second), options.step or 1e-5
  for i = 1, #a do
    local kept = a[i]
    local function at(value)
      a[i] = value
      local grads = tensors.read(first(tensors.make(a, "float64"):clone():requires_grad_(true)))
      local w, terms = weights(grads.shape), {}
      for j = 1, #grads do
        terms[j] = grads[j] * w[j]
      end
      return reference.sum(terms)
    end
    local step = h * math.max(1, math.abs(kept))
    local expected = (at(kept + step) - at(kept - step)) / (2 * step)
    a[i] = kept
    local allowed = (options.tolerance or 1e-6) * math.max(1, math.abs(expected))
    if not (math.abs(seen[i] - expected) <= allowed) then -- luacheck: ignore 581
      error(("%sthe second derivative at element %d is %.12g, differences give %.12g"):format(
        options.what and options.what .. ": " or "", i, seen[i], expected), 2)
    end
  end
  return true
end

return gradient
