-- Views, copies and joins against index arithmetic in plain Lua, with their gradients.
local ct = require "ctrain"
local gradient = require "spec.support.gradient"
local random = require "spec.support.random"
local reference = require "spec.support.reference"
local tensors = require "spec.support.tensors"

local function counting(shape) return reference.array(shape, function(i) return i end) end

-- name, shape, function of the tensor, the array expected
local cases = {
  { "reshape keeps C order", { 2, 6 }, function(t) return t:reshape(3, 4) end,
    function(a) return reference.reshape(a, { 3, 4 }) end },
  { "reshape infers one extent", { 2, 6 }, function(t) return t:reshape(4, -1) end,
    function(a) return reference.reshape(a, { 4, 3 }) end },
  { "reshape to 0-d", { 1, 1 }, function(t) return t:reshape({}) end,
    function(a) return reference.reshape(a, {}) end },
  { "flatten joins all dimensions", { 2, 3, 4 }, function(t) return t:flatten() end,
    function(a) return reference.reshape(a, { 24 }) end },
  { "flatten joins some dimensions", { 2, 3, 4 }, function(t) return t:flatten(2) end,
    function(a) return reference.reshape(a, { 2, 12 }) end },
  { "permute reorders dimensions", { 2, 3, 4 }, function(t) return t:permute(3, 1, 2) end,
    function(a) return reference.permute(a, { 3, 1, 2 }) end },
  { "transpose exchanges two dimensions", { 2, 3, 4 }, function(t) return t:transpose(1, -1) end,
    function(a) return reference.permute(a, { 3, 2, 1 }) end },
  { "t transposes a matrix", { 2, 3 }, function(t) return t:t() end,
    function(a) return reference.permute(a, { 2, 1 }) end },
  { "squeeze drops extents of 1", { 1, 3, 1 }, function(t) return t:squeeze() end,
    function(a) return reference.reshape(a, { 3 }) end },
  { "squeeze drops one dimension", { 1, 3, 1 }, function(t) return t:squeeze(3) end,
    function(a) return reference.reshape(a, { 1, 3 }) end },
  { "unsqueeze adds a dimension", { 2, 3 }, function(t) return t:unsqueeze(2) end,
    function(a) return reference.reshape(a, { 2, 1, 3 }) end },
  { "unsqueeze adds a last dimension", { 2, 3 }, function(t) return t:unsqueeze(-1) end,
    function(a) return reference.reshape(a, { 2, 3, 1 }) end },
  { "expand repeats without copies", { 3, 1 }, function(t) return t:expand(2, 3, 4) end,
    function(a) return reference.expand(a, { 2, 3, 4 }) end },
  { "broadcast_to repeats without copies", { 3 }, function(t) return t:broadcast_to({ 2, 3 }) end,
    function(a) return reference.expand(a, { 2, 3 }) end },
  { "flip reverses one dimension", { 3, 4 }, function(t) return t:flip(2) end,
    function(a) return reference.gather(a, { 3, 4 }, function(i) return { i[1], 3 - i[2] } end) end },
  { "flip reverses several dimensions", { 3, 4 }, function(t) return t:flip({ 1, 2 }) end,
    function(a) return reference.gather(a, { 3, 4 }, function(i) return { 2 - i[1], 3 - i[2] } end) end },
  { "narrow keeps a range", { 3, 5 }, function(t) return t:narrow(2, 2, 3) end,
    function(a) return reference.gather(a, { 3, 3 }, function(i) return { i[1], i[2] + 1 } end) end },
  { "narrow keeps nothing", { 3, 5 }, function(t) return t:narrow(2, 2, 0) end,
    function() return reference.array({ 3, 0 }, 0) end },
  { "select takes one index", { 3, 5 }, function(t) return t:select(1, 2) end,
    function(a) return reference.gather(a, { 5 }, function(i) return { 1, i[1] } end) end },
  { "select counts negatives from the end", { 3, 5 }, function(t) return t:select(2, -1) end,
    function(a) return reference.gather(a, { 3 }, function(i) return { i[1], 4 } end) end },
  { "diagonal takes the main diagonal", { 3, 5 }, function(t) return t:diagonal() end,
    function(a) return reference.gather(a, { 3 }, function(i) return { i[1], i[1] } end) end },
  { "diagonal takes one above", { 3, 5 }, function(t) return t:diagonal(1) end,
    function(a) return reference.gather(a, { 3 }, function(i) return { i[1], i[1] + 1 } end) end },
  { "diagonal takes one below", { 3, 5 }, function(t) return t:diagonal(-1) end,
    function(a) return reference.gather(a, { 2 }, function(i) return { i[1] + 1, i[1] } end) end },
  { "an index takes a row", { 3, 5 }, function(t) return t[2] end,
    function(a) return reference.gather(a, { 5 }, function(i) return { 1, i[1] } end) end },
  { "an index of ranges takes a block", { 3, 5 }, function(t) return t[{ { 1, 2 }, { 2, -2 } }] end,
    function(a) return reference.gather(a, { 2, 3 }, function(i) return { i[1], i[2] + 1 } end) end },
  { "an index of all, and one from the end", { 3, 5 }, function(t) return t[{ {}, -1 }] end,
    function(a) return reference.gather(a, { 3 }, function(i) return { i[1], 4 } end) end },
  { "tril keeps the lower triangle", { 3, 4 }, function(t) return t:tril() end,
    function(a) return reference.array({ 3, 4 }, function(i)
      local at = reference.unravel({ 3, 4 }, i)
      return at[2] <= at[1] and a[i] or 0
    end) end },
  { "triu keeps the part above a diagonal", { 3, 4 }, function(t) return t:triu(1) end,
    function(a) return reference.array({ 3, 4 }, function(i)
      local at = reference.unravel({ 3, 4 }, i)
      return at[2] > at[1] and a[i] or 0
    end) end },
  { "roll moves around the end", { 3, 4 }, function(t) return t:roll(1, 2) end,
    function(a) return reference.gather(a, { 3, 4 }, function(i) return { i[1], (i[2] - 1) % 4 } end) end },
  { "roll without a dimension goes through C order", { 3, 4 }, function(t) return t:roll(-5) end,
    function(a) return reference.array({ 3, 4 }, function(i) return a[(i - 1 + 5) % 12 + 1] end) end },
  { "repeat tiles", { 2, 3 }, function(t) return t["repeat"](t, 2, 2) end,
    function(a) return reference.gather(a, { 4, 6 }, function(i) return { i[1] % 2, i[2] % 3 } end) end },
  { "tile adds leading dimensions", { 3 }, function(t) return t:tile(2, 2) end,
    function(a) return reference.gather(a, { 2, 6 }, function(i) return { i[2] % 3 } end) end },
  { "pad surrounds the last dimension", { 2, 3 }, function(t) return t:pad({ 1, 2 }, 7) end,
    function(a) return reference.array({ 2, 6 }, function(i)
      local at = reference.unravel({ 2, 6 }, i)
      local c = at[2] - 1
      return (c >= 0 and c < 3) and a[at[1] * 3 + c + 1] or 7
    end) end },
  { "contiguous gives the same elements", { 3, 5 }, function(t) return t:contiguous() end, function(a) return a end },
  { "clone gives the same elements", { 3, 5 }, function(t) return t:clone() end, function(a) return a end },
}

describe("a view or a copy:", function()
  for _, case in ipairs(cases) do
    local name, shape, f, expected = case[1], case[2], case[3], case[4]

    it(name .. ", in every layout and dtype", function()
      local a = counting(shape)
      for _, layout in ipairs(tensors.layouts) do
        for _, dtype in ipairs { "float64", "float32", "float16", "int8", "int64" } do
          local t = tensors.make(a, dtype, layout)
          local out = f(t)
          assert.equal(dtype, out.dtype)
          tensors.equal(out, expected(a), layout .. " " .. dtype)
        end
      end
    end)

    it(name .. ", and its gradient goes back", function()
      gradient.check(f, { reference.map(counting(shape), math.sin) })
      gradient.check(function(x) return f(x * x) end, { reference.map(counting(shape), math.sin) })
    end)
  end

  it("an expanded tensor's gradient sums what was repeated", function()
    local x = ct.ones({ 2, 1 }, "float64"):requires_grad_(true)
    x:expand(3, 2, 4):sum():backward()
    assert.same({ { 12 }, { 12 } }, x.grad:totable())
  end)

  it("a strided slice that selects one element sends its gradient to that element alone", function()
    local x = ct.arange(6):to("float64"):clone():requires_grad_(true)
    x:slice(1, 2, 3, 4):mul(5):sum():backward()
    assert.same({ 0, 5, 0, 0, 0, 0 }, x.grad:totable())
  end)

  it("a + a has gradient 2", function()
    local x = ct.ones({ 3 }, "float64"):requires_grad_(true)
    local doubled = x + x
    doubled:sum():backward()
    assert.same({ 2, 2, 2 }, x.grad:totable())
  end)
end)

describe("cat, stack, split, chunk and unbind", function()
  it("cat joins along any dimension, whatever the layouts", function()
    local generator = random.new(71)
    for _, layout in ipairs(tensors.layouts) do
      local a, b = tensors.uniform(generator, { 2, 3 }, -1, 1), tensors.uniform(generator, { 2, 2 }, -1, 1)
      local out = ct.cat({ tensors.make(a, "float64", layout), tensors.make(b, "float64", layout) }, 2)
      tensors.equal(out, reference.array({ 2, 5 }, function(i)
        local at = reference.unravel({ 2, 5 }, i)
        return at[2] < 3 and a[at[1] * 3 + at[2] + 1] or b[at[1] * 2 + at[2] - 3 + 1]
      end))
    end
  end)

  it("cat takes empty tensors and promotes dtypes", function()
    local out = ct.cat({ ct.zeros(0, 2), ct.ones(1, 2), ct.zeros({ 0, 2 }, "float64") }, 1)
    assert.equal("float64", out.dtype)
    assert.same({ { 1, 1 } }, out:totable())
  end)

  it("cat sends each piece its own gradient, also when one tensor comes twice", function()
    gradient.check(function(x, y) return ct.cat({ x, y, x * y }, 1) end,
      { reference.map(counting({ 2, 3 }), math.sin), reference.map(counting({ 2, 3 }), math.cos) })
  end)

  it("cat names the extents that do not agree", function()
    assert.has_error(function() ct.cat({ ct.zeros(2, 3), ct.zeros(3, 4) }, 1) end)
  end)

  it("stack adds a dimension", function()
    local a, b = ct.tensor { 1, 2 }, ct.tensor { 3, 4 }
    assert.same({ { 1, 2 }, { 3, 4 } }, ct.stack({ a, b }, 1):totable())
    assert.same({ { 1, 3 }, { 2, 4 } }, ct.stack({ a, b }, 2):totable())
  end)

  it("split and chunk give views that cat joins again", function()
    local t = tensors.make(counting({ 7, 2 }))
    local pieces = t:split(3)
    assert.equal(3, #pieces)
    assert.same({ 1, 2 }, pieces[3].shape)
    tensors.equal(ct.cat(pieces, 1), counting({ 7, 2 }))
    local chunks = t:chunk(2)
    assert.same({ 4, 2 }, chunks[1].shape)
    assert.same({ 3, 2 }, chunks[2].shape)
    local sized = t:split({ 2, 5 })
    assert.same({ 5, 2 }, sized[2].shape)
    pieces[2]:fill_(0)
    assert.equal(0, t[{ 4, 1 }]:item())
  end)

  it("split has the gradient that differences give", function()
    gradient.check(function(x)
      local pieces = x:split(2)
      return pieces[1] * pieces[2]
    end, { reference.map(counting({ 4, 3 }), math.sin) })
  end)
end)

describe("gather, scatter_add and their kin", function()
  local function indices(list) return ct.tensor(list, { dtype = "int64" }) end

  it("gather takes along a dimension, in every layout", function()
    local a = counting({ 3, 4 })
    for _, layout in ipairs(tensors.layouts) do
      local t = tensors.make(a, "float64", layout)
      assert.same({ { 1, 4 }, { 6, 6 }, { 12, 9 } }, t:gather(2, indices { { 0, 3 }, { 1, 1 }, { 3, 0 } }):totable())
      assert.same({ { 1, 10, 7, 4 } }, t:gather(1, indices { { 0, 2, 1, 0 } }):totable())
    end
  end)

  it("gather adds the gradients of indexes taken twice", function()
    local index = indices { { 0, 0, 1 }, { 2, 2, 2 } }
    gradient.check(function(x) return x:gather(2, index) end, { reference.map(counting({ 2, 3 }), math.sin) })
  end)

  it("scatter_add adds where the indexes say, in order", function()
    local index = indices { { 0, 0, 2 }, { 1, 1, 1 } }
    local out = ct.zeros(2, 3):scatter_add(2, index, ct.tensor { { 1, 2, 3 }, { 4, 5, 6 } })
    assert.same({ { 3, 0, 3 }, { 0, 15, 0 } }, out:totable())
    gradient.check(function(x, y) return x:scatter_add(2, index, y) end,
      { reference.map(counting({ 2, 3 }), math.sin), reference.map(counting({ 2, 3 }), math.cos) })
  end)

  it("index_select takes rows and columns, repeated ones too", function()
    local t = tensors.make(counting({ 3, 2 }))
    assert.same({ { 5, 6 }, { 1, 2 }, { 5, 6 } }, t:index_select(1, indices { 2, 0, 2 }):totable())
    assert.same({ { 2 }, { 4 }, { 6 } }, t:index_select(2, indices { 1 }):totable())
    local index = indices { 2, 0, 2 }
    gradient.check(function(x) return x:index_select(1, index) end, { reference.map(counting({ 3, 2 }), math.sin) })
  end)

  it("one_hot counts classes from 0", function()
    assert.same({ { 0, 0, 1 }, { 1, 0, 0 } }, indices({ 2, 0 }):one_hot(3):int():totable())
  end)

  it("masked_fill fills where the mask is true and stops the gradient there", function()
    local mask = ct.tensor({ { true, false, true } }, { dtype = "bool" })
    assert.same({ { 9, 2, 9 }, { 9, 5, 9 } }, tensors.make(counting({ 2, 3 })):masked_fill(mask, 9):totable())
    gradient.check(function(x) return x:masked_fill(mask, 9) end, { reference.map(counting({ 2, 3 }), math.sin) })
  end)

  it("nonzero lists indexes that count from 0, in C order", function()
    local t = ct.tensor { { 0, 3 }, { 4, 0 } }
    assert.same({ { 0, 1 }, { 1, 0 } }, t:nonzero():totable())
    assert.same({ 0, 2 }, ct.zeros(2, 2):nonzero().shape)
  end)
end)

describe("sort, argsort and topk", function()
  it("sort gives values and 0-based positions along any dimension, stably", function()
    local generator = random.new(72)
    for _, dtype in ipairs { "float32", "float64", "int32", "bfloat16" } do
      local a = tensors.integers(generator, { 5, 37 }, 0, 9)
      for _, descending in ipairs { false, true } do
        for d = 1, 2 do
          local function order(line)
            local at = {}
            for i = 1, #line do at[i] = i end
            table.sort(at, function(p, q)
              if line[p] ~= line[q] then
                if descending then return line[p] > line[q] end
                return line[p] < line[q]
              end
              return p < q
            end)
            return at
          end
          local values, positions = tensors.make(a, dtype):sort(d, descending)
          tensors.equal(values, reference.along(a, d, function(line)
            local out = {}
            for i, p in ipairs(order(line)) do out[i] = line[p] end
            return out
          end))
          tensors.equal(positions, reference.along(a, d, function(line)
            local out = {}
            for i, p in ipairs(order(line)) do out[i] = p - 1 end
            return out
          end))
        end
      end
    end
  end)

  it("sort puts NaN last, and sends gradients back to their places", function()
    local values = ct.tensor({ 2, 0 / 0, 1 }):sort()
    tensors.equal(values, { shape = { 3 }, 1, 2, 0 / 0 })
    gradient.check(function(x) return (x:sort(1)) end, { reference.map(counting({ 5 }), math.sin) })
  end)

  it("topk gives the largest, or the smallest", function()
    local t = ct.tensor { 3, 9, 1, 7 }
    local values, positions = t:topk(2)
    assert.same({ 9, 7 }, values:totable())
    assert.same({ 1, 3 }, positions:totable())
    assert.same({ 1, 3 }, (t:topk(2, { largest = false })):totable())
  end)
end)
