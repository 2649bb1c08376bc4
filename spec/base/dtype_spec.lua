-- Element types: promotion as PyTorch's documentation has it, and conversions with one correct rounding.
local ct = require "ctrain"
local floats = require "spec.support.floats"
local random = require "spec.support.random"
local reference = require "spec.support.reference"
local tensors = require "spec.support.tensors"

local huge, nan = math.huge, 0 / 0

-- torch.promote_types; rows and columns in this order.
local order = {
  "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bfloat16", "bool",
}
local table_of_types = {
  uint8 = "uint8 int16 int16 int32 int64 float16 float32 float64 bfloat16 uint8",
  int8 = "int16 int8 int16 int32 int64 float16 float32 float64 bfloat16 int8",
  int16 = "int16 int16 int16 int32 int64 float16 float32 float64 bfloat16 int16",
  int32 = "int32 int32 int32 int32 int64 float16 float32 float64 bfloat16 int32",
  int64 = "int64 int64 int64 int64 int64 float16 float32 float64 bfloat16 int64",
  float16 = "float16 float16 float16 float16 float16 float16 float32 float64 float32 float16",
  float32 = "float32 float32 float32 float32 float32 float32 float32 float64 float32 float32",
  float64 = "float64 float64 float64 float64 float64 float64 float64 float64 float64 float64",
  bfloat16 = "bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 float32 float32 float64 bfloat16 bfloat16",
  bool = "uint8 int8 int16 int32 int64 float16 float32 float64 bfloat16 bool",
}

describe("promotion", function()
  for _, left in ipairs(order) do
    it(("of %s with every other dtype is PyTorch's"):format(left), function()
      local column = 0
      for expected in table_of_types[left]:gmatch("%S+") do
        column = column + 1
        local right = order[column]
        assert.equal(expected, (ct.ones({ 2 }, left) + ct.ones({ 2 }, right)).dtype, left .. " + " .. right)
        assert.equal(expected, ct.ones({ 2 }, left):maximum(ct.ones({ 2 }, right)).dtype)
      end
      assert.equal(10, column)
    end)
  end

  it("lets a 0-d tensor change the kind of another, never its width", function()
    assert.equal("float32", (ct.ones(2) + ct.tensor(1, { dtype = "float64" })).dtype)
    assert.equal("float16", (ct.ones({ 2 }, "float16") + ct.tensor(1, { dtype = "float64" })).dtype)
    assert.equal("int8", (ct.ones({ 2 }, "int8") + ct.tensor(1, { dtype = "int64" })).dtype)
    assert.equal("float64", (ct.tensor(1, { dtype = "float32" }) + ct.tensor(1, { dtype = "float64" })).dtype)
    assert.equal("float64", (ct.ones({ 2 }, "int32") + ct.tensor(1, { dtype = "float64" })).dtype)
  end)

  it("takes Lua numbers as weak: whole ones keep integers, fractions make float32 of them", function()
    assert.equal("int32", (ct.ones({ 2 }, "int32") + 1).dtype)
    assert.equal("float32", (ct.ones({ 2 }, "int32") + 1.5).dtype)
    assert.equal("bfloat16", (ct.ones({ 2 }, "bfloat16") * 1.5).dtype)
    assert.equal("float64", (ct.ones({ 2 }, "float64") * 2).dtype)
    assert.same({ 2.5, 2.5 }, (ct.ones({ 2 }, "int32") + 1.5):totable())
  end)

  it("makes float32 of integers where an operation has only floats", function()
    for _, dtype in ipairs { "int32", "int64", "uint8", "bool" } do
      assert.equal("float32", ct.ones({ 2 }, dtype):exp().dtype)
    end
    assert.equal("float32", (ct.ones({ 2 }, "int32") / ct.ones({ 2 }, "int32")).dtype)
    assert.same({ 0.5 }, (ct.tensor({ 1 }, { dtype = "int32" }) / 2):totable())
  end)
end)

describe("conversion", function()
  for _, dtype in ipairs { "float16", "bfloat16", "float32" } do
    it(("from float64 to %s rounds once, to nearest, ties to even"):format(dtype), function()
      local format = floats.formats[dtype]
      local list = {}
      local step = 2 ^ (1 - format.bits)
      for k = 0, 40 do -- exact, below a tie, tie, above a tie
        for _, part in ipairs { 0, 0.5 - 2 ^ -20, 0.5, 0.5 + 2 ^ -20 } do
          for _, scale in ipairs { 1, 2 ^ 10, 2 ^ -10, -1 } do list[#list + 1] = scale * (1 + (k + part) * step) end
        end
      end
      local tiny = 2 ^ (format.min - format.bits + 1) -- the least subnormal
      for k = 0, 20 do
        for _, part in ipairs { 0, 0.25, 0.5, 0.75 } do list[#list + 1] = (k + part) * tiny end
      end
      local largest = (2 - step) * 2 ^ format.max
      local half = 2 ^ format.max * step / 2
      for _, x in ipairs { largest, largest + half / 4, largest + half, 2 * largest, huge, -huge, 0, -0.0 } do
        list[#list + 1] = x
      end
      local generator = random.new(91)
      for _ = 1, 2000 do
        list[#list + 1] = generator:uniform(-1, 1) * 2 ^ generator:integer(format.min - 12, format.max)
      end
      local a = reference.array({ #list }, list)
      local rounded = reference.map(a, function(x) return floats.round(x, dtype) end)
      tensors.equal(tensors.make(a):to(dtype):to("float64"), rounded)
      for _, x in ipairs { list[3], list[7], tiny / 2, largest * 1.5 } do -- alone, not in a vector
        tensors.equal(ct.tensor(x, { dtype = dtype }):to("float64"), reference.array({}, floats.round(x, dtype)))
      end
    end)

    it(("to %s keeps a NaN a NaN, in vectors and alone"):format(dtype), function()
      for _, n in ipairs { 1, 7, 64, 67 } do
        local t = ct.full({ n }, nan, "float64"):to(dtype)
        assert.equal(n, tonumber(t:ne(t):sum():item()))
        assert.equal(n, tonumber(t:isnan():sum():item()))
      end
    end)
  end

  it("from float32 to float16 and bfloat16 rounds to nearest even too", function()
    for _, dtype in ipairs { "float16", "bfloat16" } do
      for _, bound in ipairs { 70000, 1e-4 } do
        local a = tensors.uniform(random.new(92), { 3001 }, -bound, bound, "float32")
        local rounded = reference.map(a, function(x) return floats.round(x, dtype) end)
        tensors.equal(tensors.make(a, "float32"):to(dtype), rounded)
      end
    end
  end)

  it("reads every float16 back from float32 unchanged", function()
    local list = {}
    for e = -24, 15 do
      for m = 0, 31 do
        local x = 2 ^ e * (1 + m / 32)
        if floats.round(x, "float16") == x then list[#list + 1] = x end
      end
    end
    local a = reference.array({ #list }, list)
    tensors.equal(tensors.make(a, "float16"):to("float32"):to("float16"), a)
  end)

  it("to integers cuts towards 0, and wraps from wider integers", function()
    local t = ct.tensor({ -2.9, -0.5, 0.5, 2.9 }, { dtype = "float64" })
    for _, dtype in ipairs { "int8", "int16", "int32", "int64" } do
      tensors.equal(t:to(dtype), { shape = { 4 }, -2, 0, 0, 2 }, dtype)
    end
    tensors.equal(ct.tensor({ 300, -129, 128 }, { dtype = "int32" }):to("int8"), { shape = { 3 }, 44, 127, -128 })
    tensors.equal(ct.tensor({ 300, -1 }, { dtype = "int32" }):to("uint8"), { shape = { 2 }, 44, 255 })
  end)

  it("to bool is whether it is not 0, NaN included", function()
    for _, dtype in ipairs(tensors.float_dtypes) do
      local t = ct.tensor({ 0, -0.0, 0.25, nan, -3 }, { dtype = dtype })
      assert.same({ false, false, true, true, true }, t:to("bool"):totable())
    end
    assert.same({ 0, 1 }, ct.tensor({ false, true }, { dtype = "bool" }):to("float32"):totable())
  end)

  it("between all dtypes keeps small whole numbers", function()
    local a = { shape = { 70 } }
    for i = 1, 70 do a[i] = i end
    for _, from in ipairs(tensors.dtypes) do
      for _, to in ipairs(tensors.dtypes) do
        if from ~= "bool" and to ~= "bool" then
          tensors.equal(tensors.make(a, from):to(to), a, from .. " to " .. to)
          tensors.equal(tensors.make(a, from, "strided"):to(to), a, from .. " to " .. to)
        end
      end
    end
  end)

  it("passes the gradient back in the source's own dtype", function()
    local x = ct.ones({ 3 }, "float32"):requires_grad_(true)
    x:to("float64"):mul(2):sum():backward()
    assert.equal("float32", x.grad.dtype)
    assert.same({ 2, 2, 2 }, x.grad:totable())
  end)

  it("by method has the names of the types", function()
    local t = ct.ones(1)
    local names = { float = "float32", double = "float64", half = "float16", bfloat16 = "bfloat16", int = "int32",
      long = "int64", bool = "bool" }
    for name, dtype in pairs(names) do assert.equal(dtype, t[name](t).dtype) end
  end)
end)

describe("numbers", function()
  it("that are whole count as integers however Lua writes them", function()
    assert.same({ 2, 3 }, ct.zeros(2.0, 3.0).shape)
    assert.equal(3, ct.ones(3):sum(1.0):item())
    assert.same({ 1 }, ct.ones(4):narrow(1, 2.0, 1.0).shape)
    local t = ct.tensor { 5, 6, 7 }
    assert.equal(6, t[2.0]:item())
  end)

  it("with a fraction are refused by name where a count is due", function()
    for _, f in ipairs {
      function() return ct.zeros(2.5) end,
      function() return ct.ones(3)[1.5] end,
      function() return ct.ones(3):narrow(1, 1.5, 1) end,
      function() return ct.ones(3, 3):sum(1.5) end,
      function() return ct.eye(2.5) end,
      function() return ct.ones(3):reshape(1.5, 2) end,
    } do
      local ok, message = pcall(f)
      assert.is_false(ok)
      assert.is_truthy(message:find("[12]%.5"), message)
    end
  end)

  it("beyond 2^53 pass through int64 unharmed", function()
    local top = ct.tensor({ 1 }, { dtype = "int64" }):bitwise_left_shift(ct.tensor({ 62 }, { dtype = "int64" }))
    assert.equal("4611686018427387905", (tostring((top + 1):item()):gsub("LL$", "")))
  end)
end)
