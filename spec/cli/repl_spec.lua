-- The prompt, help and completion.
local process = require "spec.support.process"

local ctrain = process.quote(os.getenv "CTRAIN" or "build/bin/ctrain")

local function typed(text) return process.run(ctrain .. " -i", text) end

describe("the prompt", function()
  it("prints the values of expressions", function()
    local result = typed("1 + 1, 'a'\nx = 5\n= x\nct.ones(2):sum()\n")
    assert.equal(0, result.code)
    assert.truthy(result.out:find("2\ta\n5\n 2\n[float32 scalar]\n", 1, true))
  end)

  it("prints short lists as one writes them", function()
    local result = typed("ct.ones(2, 3).shape\nct.tensor(1).shape\n{ { 1, true }, 'a' }\n{ x = 1 }\n")
    assert.truthy(result.out:find('{ 2, 3 }\n{}\n{ { 1, true }, "a" }\ntable: ', 1, true), result.out)
  end)

  it("takes a statement over several lines", function()
    local result = typed("for i = 1, 2 do\nprint('line ' .. i)\nend\n")
    assert.truthy(result.out:find("line 1\nline 2\n", 1, true))
  end)

  it("goes on after errors", function()
    local result = typed("error 'first'\n1 +* 2\nct.ones(2):sum(3)\n'still here'\n")
    assert.truthy(result.err:find("stdin:1: first", 1, true))
    assert.truthy(result.err:find("stdin:1: unexpected symbol near '1'", 1, true))
    assert.truthy(result.err:find("stdin:1: sum: ", 1, true))
    assert.truthy(result.out:find("still here", 1, true))
    assert.equal(0, result.code)
  end)
end)

describe("help", function()
  local help = require "ctrain.help"
  local ct = require "ctrain"

  local function text(value) return table.concat(help.lines(value), "\n") end

  it("shows what a layer takes", function()
    assert.truthy(text(ct.nn.Linear):find("ct.nn.Linear(in_features, out_features, bias=true, dtype=nil)", 1, true))
    assert.truthy(text(ct.nn.Linear):find("y = x W^T + b", 1, true))
    assert.truthy(text(ct.optim.SGD):find("momentum=0", 1, true))
  end)

  it("shows what functions take, in C and in Lua", function()
    assert.truthy(text(ct.sum):find("t:sum(dim: dims?, keepdim: boolean?): tensor", 1, true))
    assert.truthy(text(ct.add_):find("writes its result into t", 1, true))
    assert.truthy(text(ct.softmax):find("t:softmax(dim)", 1, true))
    assert.truthy(text(ct.nn.functional.cross_entropy):find("label_smoothing=0", 1, true))
    assert.truthy(text(ct.trace):find("recorded at its first call", 1, true))
    assert.truthy(text(function(first, second) return first, second end):find("function(first, second)", 1, true))
  end)

  it("finds things by their names", function()
    assert.equal(text(ct.matmul), text "matmul")
    assert.equal(text(ct.nn.ReLU), text "ct.nn.ReLU")
    assert.truthy(text "no_such_thing":find("nothing called 'no_such_thing'", 1, true))
    assert.truthy(text "float32":find("element type", 1, true))
  end)

  it("has a line for everything that ctrain exports", function()
    for _, list in ipairs { ct, require("ctrain.core").Tensor, ct.nn, ct.nn.functional, ct.optim, ct.utils.data } do
      for name, value in pairs(list) do
        assert.is_true(#help.lines(value) >= 1, name)
        assert.is_nil(text(value):find("(...)\n", 1, true) and name:find("^%l") and text(value):find("^ct%."), name)
      end
    end
  end)
end)

describe("completion", function()
  local complete = require "ctrain.complete"

  local function with_global(name, value, fn)
    rawset(_G, name, value)
    local ok, problem = pcall(fn)
    rawset(_G, name, nil)
    if not ok then error(problem, 0) end
  end

  it("offers globals and keywords", function()
    assert.same({ "print" }, complete "prin")
    assert.same({ "while" }, complete "whil")
    assert.same({ "string.rep", "string.reverse" }, complete "string.re")
  end)

  it("offers what is loaded on demand", function()
    with_global("ct", require "ctrain", function()
      assert.same({ "ct.nn.Linear" }, complete "ct.nn.Lin")
      assert.same({ "ct.utils.data", "ct.utils.profiler" }, complete "ct.utils.")
    end)
  end)

  it("offers methods and fields of tensors and models", function()
    local ct = require "ctrain"
    with_global("x", ct.ones(2), function()
      assert.same({ "x:sub", "x:sub_", "x:sum" }, complete "x:su")
      assert.same({ "x.shape" }, complete "x.sha")
      assert.same({}, complete "x:sha")
    end)
    with_global("x", ct.nn.Sequential(ct.nn.Linear(1, 1)), function()
      assert.same({ "x:forward" }, complete "x:forw")
      assert.same({ "x.train", "x.training" }, complete "x.train")
    end)
  end)

  it("runs no code of the user", function()
    local calls = 0
    local function count() calls = calls + 1 end
    with_global("x", setmetatable({ seen = 1 }, { __index = count, __pairs = count, __len = count }), function()
      assert.same({ "x.seen" }, complete "x.s")
      assert.same({}, complete "x.other.field")
    end)
    assert.equal(0, calls)
  end)
end)
