-- CTRAIN_LOG and ct.debug.kernels: what a run tells of where its time went, and why steps were recorded.
local ct = require "ctrain"
local process = require "spec.support.process"
local json = require "ctrain.json"

local script = [[
local ct = require "ctrain"
ct.backend("CPU")
local w = ct.ones(20, 30)
local step = ct.trace(function(x)
  local y = ct.matmul(x, w):exp()
  return y
end, { wait = true })
local show = ct.step_closure(function() end)
local loader = ct.utils.data.DataLoader(function()
  return ct.utils.data.Loader(ct.utils.data.TensorDataset(ct.ones(30, 20)), { batch_size = 10 })
end)
for batch in ct.utils.data.DataExecutor(loader) do show(step(batch[1])) end
step(ct.ones(3, 20))
]]

describe("CTRAIN_LOG", function()
  it("=kernels shows each kernel and library call, with the lines it came from", function()
    local err = process.lua(script, { env = "CTRAIN_LOG=kernels" }).err
    assert.truthy(err:find("3 runs, [%d.]+ ms each\n"), err)
    assert.truthy(err:find("count +ms +share +GB/s +GFLOP/s\n"), err)
    local row = "\nctrain: +3 +[%d.]+ +[%d.]+ %% +[%d.]+ +([%d.]+)  "
    assert.truthy(err:find(row .. "matmul 10x20, 20x30 float32, [^\n]*script.lua:5\n"), err)
    assert.equal("0.0", err:match(row .. "exp 10x30 float32, [^\n]*script.lua:5\n"))
  end)

  it("=timeline:FILE writes what Chrome shows: kernels, steps, batches, closures", function()
    local folder = process.folder()
    process.lua(script, { env = "CTRAIN_LOG=timeline:" .. folder .. "/kernels.json" })
    local file = assert(io.open(folder .. "/kernels.json"))
    local events = json.decode(file:read("*a"))
    file:close()
    process.remove(folder)
    local count, last = {}, nil
    for _, event in ipairs(events) do
      count[event.cat] = (count[event.cat] or 0) + 1
      assert.equal("X", event.ph)
      assert.is_true(event.ts >= 0 and event.dur >= 0)
      if event.cat == "step" and not last then last = event end
    end
    assert.same({ kernel = 4, call = 4, step = 4, loader = 3, closure = 3 }, count)
    assert.truthy(last.name:find("script.lua:4", 1, true))
    -- the kernels of the first step lie within it
    local inside = 0
    for _, event in ipairs(events) do
      local within = event.ts >= last.ts and event.ts + event.dur <= last.ts + last.dur + 0.01
      if within and (event.cat == "kernel" or event.cat == "call") then inside = inside + 1 end
    end
    assert.equal(2, inside)
  end)

  it("=trace says why a step is recorded anew", function()
    local err = process.lua(script, { env = "CTRAIN_LOG=trace" }).err
    assert.truthy(err:find("step recorded, for the arguments were %[ float32 10x20%] and are %[ float32 3x20%]"), err)
  end)

  it("with a word that it does not know says which it takes", function()
    local result = process.lua(script, { env = "CTRAIN_LOG=trace,kernel" })
    assert.truthy(result.err:find("warning: CTRAIN_LOG: there is no 'kernel'; it takes trace, kernels", 1, true))
    assert.equal(0, result.code)
    result = process.lua(script, { env = "CTRAIN_LOG=timeline:/nowhere/t.json" })
    assert.truthy(result.err:find("warning: CTRAIN_LOG: timeline: /nowhere/t.json: No such file", 1, true))
    assert.equal(0, result.code)
  end)
end)

describe("ct.debug.kernels", function()
  it("tells where the time of compiled steps goes since it was switched on", function()
    local step = ct.trace(function(x)
      local y = ct.matmul(x, x):exp()
      return y
    end, { wait = true })
    local x = ct.ones(40, 40)
    step(x)
    ct.debug.kernels(true)
    for _ = 1, 5 do step(x) end
    local found = ct.debug.kernels()
    ct.debug.kernels(false)
    local mine
    for _, one in ipairs(found) do
      if one.runs == 5 then mine = one end
    end
    assert.equal(2, #mine)
    local share, names = 0, {}
    for _, row in ipairs(mine) do
      share = share + row.share
      names[row.kind] = row.name
      assert.equal(5, row.count)
      assert.is_true(row.seconds > 0 and row.gbs > 0)
      assert.equal(row.kind == "call", row.gflops > 0)
    end
    assert.is_true(math.abs(share - 1) < 1e-9)
    assert.truthy(names.call:find("^matmul 40x40, 40x40 float32, .*log_spec.lua:"))
    assert.truthy(names.kernel:find("^exp 40x40 float32"))
    assert.truthy(tostring(found):find(names.call, 1, true))
    assert.equal("no compiled step ran while time was taken", tostring(ct.debug.kernels()))
    assert.error_matches(function() ct.debug.kernels(1) end, "ct.debug.kernels: on must be true or false, not 1")
  end)
end)
