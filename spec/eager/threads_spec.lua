-- The bits of a result do not depend on how many threads made it.
local ct = require "ctrain"

local function with_threads(n, fn)
  local before = ct.get_num_threads()
  ct.set_num_threads(n)
  local ok, result = pcall(fn)
  ct.set_num_threads(before)
  return assert(ok and result, result)
end

-- fn's results as one text of exact numbers, at 1, 2 and 4 threads.
local function same_bits(fn)
  local texts = {}
  for i, n in ipairs { 1, 2, 4 } do
    texts[i] = with_threads(n, function()
      ct.manual_seed(7)
      local items = {}
      for j, value in ipairs(fn():reshape(-1):totable()) do items[j] = ("%a"):format(value) end
      return table.concat(items, " ")
    end)
  end
  assert.equal(texts[1], texts[2])
  assert.equal(texts[1], texts[3])
end

describe("at 1, 2 and 4 threads", function()
  it("a sum over everything has the same bits", function()
    same_bits(function() return ct.randn(1000003):sum() end)
  end)

  it("sums over rows and over columns have the same bits", function()
    same_bits(function() return ct.randn(300, 701):sum(2) end)
    same_bits(function() return ct.randn(701, 300):sum(1) end)
    same_bits(function() return ct.randn(50, 301, 20):sum({ 1, 3 }) end)
  end)

  it("random numbers are the same", function()
    same_bits(function() return ct.randn(70001) end)
    same_bits(function() return ct.rand(70001) end)
  end)

  it("the largest element, its place and cumulative sums are the same", function()
    same_bits(function() return ct.randn(400, 900):argmax(2) end)
    same_bits(function() return ct.randn(100, 501):cumsum(2) end)
  end)

  it("softmax and the gradient of duplicate embedding rows have the same bits", function()
    same_bits(function() return ct.randn(200, 1000):softmax(2) end)
    same_bits(function()
      local table_of_rows = ct.randn(5, 64):requires_grad_(true)
      local index = ct.randint(0, 5, { 3000 })
      local weights = ct.randn(3000, 64)
      local loss = (table_of_rows:index_select(1, index) * weights):sum()
      loss:backward()
      return table_of_rows.grad
    end)
  end)

  it("a compiled step has the bits of the eager code", function()
    local x = ct.randn(257, 130)
    local step = ct.trace(function(t) return (t:tanh() * 2):softmax(2):sum(1) end, { wait = true })
    same_bits(function() return step(x) end)
    assert.same((x:tanh() * 2):softmax(2):sum(1):totable(), step(x):totable())
  end)
end)
