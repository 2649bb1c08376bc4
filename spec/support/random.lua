-- A small seeded generator of its own (Lehmer's, modulus 2^31 - 1), so that tests draw the same numbers on every
-- interpreter, whatever ctrain's generator does.
local random = {}
random.__index = random

---@class random.Generator
---@field uniform fun(self, low?: number, high?: number): number
---@field integer fun(self, low: integer, high: integer): integer
---@field normal fun(self): number
---@field pick fun(self, list: any[]): any

---@param seed integer
---@return random.Generator
function random.new(seed)
  local self = setmetatable({ state = seed * 7919 % 2147483646 + 1 }, random)
  for _ = 1, 8 do
    self:uniform()
  end
  return self
end

function random:uniform(low, high)
  self.state = self.state * 48271 % 2147483647
  local u = (self.state - 1) / 2147483646
  low, high = low or 0, high or 1
  return low + (high - low) * u
end

function random:integer(low, high)
  return math.min(high, low + math.floor(self:uniform() * (high - low + 1)))
end

function random:normal()
  local u = math.max(self:uniform(), 1e-12)
  return math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * self:uniform())
end

function random:pick(list)
  return list[self:integer(1, #list)]
end

return random
