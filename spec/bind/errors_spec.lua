-- What bad input gets: a Lua error that names the argument, what was seen and what was expected, at the script's line.
local ct = require "ctrain"

-- The message of the error that fn raises; `here` checks that it begins with this file and the given line.
local function message_of(fn, ...)
  local ok, message = pcall(fn, ...)
  assert.is_false(ok, "an error was expected")
  return tostring(message)
end

local function line_here() return debug.getinfo(2, "l").currentline end

local function has(message, ...)
  for _, part in ipairs { ... } do
    assert.is_truthy(message:find(part, 1, true), ("%q does not say %q"):format(message, part))
  end
end

describe("an error", function()
  it("begins with the script's own file and line", function()
    local line = line_here() + 1
    local message = message_of(function() local t = ct.zeros(2, 3) + ct.zeros(4, 5) return t end)
    has(message, ("errors_spec.lua:%d: "):format(line))
  end)

  it("names the script's line when a composition in Lua fails inside", function()
    local line = line_here() + 1
    local message = message_of(function() local t = ct.zeros(2, 3):softmax(7) return t end)
    has(message, ("errors_spec.lua:%d: "):format(line))
  end)
end)

describe("shapes", function()
  it("that do not broadcast are both named, with the dimension", function()
    has(message_of(function() return ct.zeros(2, 3) + ct.zeros(4, 5) end), "add", "2x3", "4x5", "dimension 1")
  end)

  it("of a matmul name the inner extents", function()
    has(message_of(function() return ct.zeros(2, 3):matmul(ct.zeros(4, 5)) end), "matmul", "2x3", "4x5", "3 against 4")
  end)

  it("that a reshape cannot have name both counts", function()
    has(message_of(function() return ct.zeros(2, 3):reshape(4, 2) end), "reshape", "2x3", "6 elements", "4x2", "8")
  end)

  it("are refused when an extent is negative", function()
    has(message_of(function() return ct.zeros(2, -3) end), "-3")
  end)

  it("with a NaN where a count is due are refused by name", function()
    has(message_of(function() return ct.zeros(0 / 0) end), "shape", "whole number", "nan")
  end)

  it("too large for memory are an error that says how large", function()
    has(message_of(function() return ct.zeros(1e15) + 1 end), "out of memory", "1000000000000000", "GB")
  end)
end)

describe("dtypes", function()
  it("that are unknown get the nearest name", function()
    has(message_of(function() return ct.zeros({ 2 }, { dtype = "flaot32" }) end), "flaot32", "float32")
  end)

  it("of a condition other than bool are refused", function()
    has(message_of(function() return ct.where(ct.ones(2), 1, 0) end), "where", "float32", "bool")
  end)

  it("of two matmul operands must agree", function()
    local message = message_of(function() return ct.zeros(2, 2):matmul(ct.zeros({ 2, 2 }, "float64")) end)
    has(message, "matmul", "float32", "float64")
  end)

  it("without a gradient cannot require one", function()
    has(message_of(function() return ct.ones({ 2 }, "int64"):requires_grad_(true) end), "int64", "gradient")
  end)
end)

describe("positions", function()
  local t = ct.arange(6):reshape(2, 3)

  it("count from 1: 0 is refused, and says so", function()
    has(message_of(function() return t[0] end), "position 0", "count from 1")
  end)

  it("past the end name the extent", function()
    has(message_of(function() return t[3] end), "position 3", "extent is 2")
    has(message_of(function() return t[{ 1, -4 }] end), "-4", "extent is 3")
  end)

  it("with a fraction are refused by name", function()
    has(message_of(function() return t[1.5] end), "whole number", "1.5")
  end)

  it("in dimensions out of range name the dimension", function()
    has(message_of(function() return t:sum(3) end), "sum", "3")
    has(message_of(function() return t:sum(0) end), "sum", "0")
  end)

  it("given as 3.0 are as good as 3", function()
    assert.same(t[2]:totable(), t[2.0]:totable())
    assert.same({ 2, 3 }, ct.zeros(2.0, 3.0).shape)
  end)

  it("out of range in an index tensor name the index and the extent", function()
    local index = ct.tensor({ 0, 7 }, { dtype = "int64" })
    has(message_of(function() return t:index_select(1, index) end), "7", "2")
  end)
end)

describe("nested tables", function()
  it("that are ragged name the place", function()
    has(message_of(function() return ct.tensor { { 1, 2 }, { 3 } } end), "ragged", "value[2]", "1 element", "2")
  end)

  it("with a hole name the place", function()
    has(message_of(function() return ct.tensor { 1, nil, 3 } end), "hole", "element 2")
  end)

  it("with something that is no number name it", function()
    has(message_of(function() return ct.tensor { 1, "two" } end), "two")
  end)
end)

describe("options", function()
  it("that are unknown get the nearest name", function()
    has(message_of(function() return ct.zeros({ 2 }, { dtpye = "float32" }) end), "dtpye", "did you mean 'dtype'")
  end)

  it("of an optimizer are checked as well", function()
    local p = ct.zeros(2):requires_grad_(true)
    has(message_of(function() return ct.optim.SGD({ p }, { lr = 0.1, momentun = 0.9 }) end), "momentun", "momentum")
  end)
end)

describe("methods and fields", function()
  it("that are unknown get the nearest name", function()
    has(message_of(function() return ct.zeros(2):summ() end), "summ", "did you mean 'sum'")
  end)
end)

describe("reductions", function()
  it("of nothing have no value where there is none", function()
    has(message_of(function() return ct.zeros(0, 3):max(1) end), "max", "0x3", "empty")
    assert.same({ 0 }, ct.zeros(3, 0):max(1).shape)
  end)

  it("to one number need one element", function()
    has(message_of(function() return ct.zeros(2):item() end), "item", "2 elements")
  end)
end)

describe("labels", function()
  it("out of range name the label and the number of classes, and change nothing", function()
    local logits = ct.zeros(2, 3):requires_grad_(true)
    local labels = ct.tensor({ 0, 3 }, { dtype = "int64" })
    has(message_of(function() return ct.nn.functional.cross_entropy(logits, labels) end), "3")
    assert.is_nil(logits.grad)
    assert.same({ { 0, 0, 0 }, { 0, 0, 0 } }, logits:totable())
  end)
end)

describe("state after an error", function()
  it("is as before", function()
    local x = ct.arange(4):float()
    message_of(function() x:add_(ct.zeros(3)) end)
    message_of(function() x[{ { 2, 9 } }] = 5 end)
    message_of(function() x:copy_(ct.zeros(5)) end)
    assert.same({ 0, 1, 2, 3 }, x:totable())
  end)

  it("keeps gradients enabled after an error inside no_grad", function()
    message_of(function() ct.no_grad(function() error "inside" end) end)
    assert.is_true(ct.is_grad_enabled())
  end)
end)
