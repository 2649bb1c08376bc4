-- compile_only and validate_only: steps are recorded (and compiled), nothing runs, and no parameter is made.
local process = require "spec.support.process"

-- A model of 100 GB, trained with Adam; `width` of the last layer, and the backend's options, are the case's own.
local source = [[
local ct = require "ctrain"
ct.backend("CPU", { %s = true, compile_dir = (...) })
local layers = {}
for i = 1, 10 do layers[i] = ct.nn.Linear(50000, 50000) end
layers[11] = ct.nn.Linear(%d, 10)
local model = ct.nn.Sequential(layers)
local optimizer = ct.optim.AdamW(model:parameters(), { lr = 0.1 })
local compiled = ct.compile(model)
local step = ct.trace(function(batch)
  optimizer:zero_grad()
  local loss = ct.nn.functional.cross_entropy(compiled(batch.x), batch.y)
  loss:backward()
  optimizer:step()
  return loss
end)
local show = ct.step_closure(function() print("a closure ran") end)
local fetched = 0
local loader = ct.utils.data.DataLoader(function()
  return function()
    fetched = fetched + 1
    return { x = ct.zeros(4, 50000), y = ct.zeros(4, "int64") }
  end
end)
for batch in ct.utils.data.DataExecutor(loader, { num_steps = 100 }) do
  show(step(batch))
end
ct.save(model:state_dict(), "/nowhere/model.h5")
print(fetched, ct.live_bytes() < 10e6, ct.backend().is_e2e_execution)
]]

describe("a backend that runs nothing", function()
  local folder
  setup(function() folder = process.folder() end)
  teardown(function() process.remove(folder) end)

  local function run(mode, width)
    local path = folder .. "/huge.lua"
    local file = assert(io.open(path, "w"))
    file:write(source:format(mode, width))
    file:close()
    local cache = process.quote(folder .. "/cache")
    return process.run(("%s %s %s"):format(process.interpreter(), process.quote(path), cache))
  end

  it("validates one step of a model that is larger than the machine", function()
    local result = run("validate_only", 50000)
    assert.equal("1\ttrue\tfalse\n", result.out)
    assert.equal(0, result.code)
    assert.truthy(result.err:find("huge%.lua:9: valid: %d+ nodes, %d+ kernels, %d+ library calls, arena .-, "
      .. "22 parameters of 100%.0 GB, other state of 200%.0 GB in "), result.err)
    assert.falsy(result.err:find("compiled in", 1, true))
  end)

  it("compiles it, so that the real run finds it in the cache", function()
    local result = run("compile_only", 50000)
    assert.equal("1\ttrue\tfalse\n", result.out)
    assert.truthy(result.err:find("compiled in", 1, true), result.err)
    assert.truthy(run("compile_only", 50000).err:find("cached", 1, true))
  end)

  it("finds a shape error in it, at its line", function()
    local result = run("validate_only", 40000)
    assert.equal(1, result.code)
    assert.truthy(result.err:find("huge.lua:11: ", 1, true), result.err)
    assert.truthy(result.err:find("4x50000", 1, true), result.err)
  end)

  it("is one or the other", function()
    local result = process.lua('require("ctrain").backend("CPU", { compile_only = true, validate_only = true })')
    assert.truthy(result.err:find("script.lua:1: ct.backend: compile_only and validate_only exclude each", 1, true))
    result = process.lua('require("ctrain").backend("CPU", { compile_only = 1 })')
    assert.truthy(result.err:find("ct.backend: compile_only must be true or false, not 1", 1, true))
  end)
end)
