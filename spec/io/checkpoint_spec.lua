-- ct.save and ct.load: what was saved comes back, and files that are damaged, foreign or out of reach are errors.
local ct = require "ctrain"
local process = require "spec.support.process"
local reference = require "spec.support.reference"
local tensors = require "spec.support.tensors"

local folder

local function message_of(fn, ...)
  local ok, message = pcall(fn, ...)
  assert.is_false(ok, "an error was expected")
  return tostring(message)
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

describe("a checkpoint", function()
  before_each(function() folder = process.folder() end)
  after_each(function() process.remove(folder) end)

  local function round_trip(value, map_location)
    ct.save(value, folder .. "/a.h5")
    return ct.load(folder .. "/a.h5", map_location)
  end

  it("gives back tensors of every dtype, shape and layout", function()
    for _, dtype in ipairs(tensors.dtypes) do
      for _, shape in ipairs { {}, { 0 }, { 1 }, { 7 }, { 3, 5 }, { 2, 0, 3 }, { 2, 3, 4 } } do
        for _, layout in ipairs { "contiguous", "transposed", "strided", "flipped" } do
          local a = reference.array(shape, function(i) return dtype == "bool" and i % 2 or i end)
          local back = round_trip({ t = tensors.make(a, dtype, layout) }, "cpu").t
          assert.equal(dtype, back.dtype)
          tensors.equal(back, a, dtype .. " " .. layout)
        end
      end
    end
  end)

  it("gives back special floats bit for bit", function()
    local a = { shape = { 6 }, 0 / 0, math.huge, -math.huge, -0.0, 2 ^ -149, 1e38 }
    for _, dtype in ipairs { "float32", "float64", "bfloat16" } do
      local t = tensors.make(a, dtype)
      tensors.identical(round_trip({ t = t }, "cpu").t, t, dtype)
    end
  end)

  it("gives back nested tables, numbers, strings and booleans", function()
    local value = { step = 12, rate = 0.1, on = true, off = false, name = "a.b/c%", list = { 1, 2, { x = "y" } },
      deep = { er = { still = 3 } } }
    assert.same(value, round_trip(value, "cpu"))
  end)

  it("gives back tied tensors tied", function()
    local t = ct.ones(3)
    local back = round_trip({ a = t, b = t }, "cpu")
    back.a:fill_(5)
    assert.same({ 5, 5, 5 }, back.b:totable())
  end)

  it("of a view saves the view's elements alone", function()
    local wide = ct.zeros(1000, 1000)
    ct.save({ t = wide[{ { 1, 2 }, { 1, 3 } }] }, folder .. "/v.h5")
    assert.is_true(#read(folder .. "/v.h5") < 100000)
  end)

  it("gives back a constant that had no elements yet", function()
    tensors.equal(round_trip({ t = ct.full({ 2, 3 }, 2.5, "float16") }).t, reference.array({ 2, 3 }, 2.5))
  end)

  it("continues a run bit for bit: model, optimizer and random numbers", function()
    local function make()
      ct.manual_seed(1)
      local model = ct.nn.Sequential(ct.nn.Linear(4, 8), ct.nn.ReLU(), ct.nn.Dropout(0.3), ct.nn.Linear(8, 2))
      return model, ct.optim.Adam(model:parameters(), { lr = 0.01 })
    end
    local function steps(model, optimizer, n)
      local x, y = ct.ones(6, 4), ct.zeros({ 6 }, "int64")
      for _ = 1, n do
        optimizer:zero_grad()
        ct.nn.functional.cross_entropy(model(x), y):backward()
        optimizer:step()
      end
    end
    local model, optimizer = make()
    steps(model, optimizer, 3)
    ct.save({ model = model:state_dict(), optimizer = optimizer:state_dict() }, folder .. "/m.h5")
    ct.manual_seed(7)
    steps(model, optimizer, 3)
    local other, second = make()
    local state = ct.load(folder .. "/m.h5")
    ct.manual_seed(7)
    other:load_state_dict(state.model)
    second:load_state_dict(state.optimizer)
    steps(other, second, 3)
    for name, parameter in model:named_parameters() do
      local twin
      for other_name, p in other:named_parameters() do if name == other_name then twin = p end end
      tensors.identical(parameter:detach(), twin:detach(), name)
    end
  end)

  it("replaces an older file only when the new one is complete", function()
    local path = folder .. "/a.h5"
    ct.save({ x = 1 }, path)
    local before = read(path)
    message_of(ct.save, { x = function() end }, path)
    assert.equal(before, read(path))
    local listing = process.run("ls " .. process.quote(folder)).out
    assert.equal("a.h5\n", listing)
  end)

  it("cut short at any length is an error that names the file, never a wrong value", function()
    local path = folder .. "/a.h5"
    ct.save({ t = ct.arange(1000), s = "text", n = 5 }, path)
    local whole = read(path)
    for _, part in ipairs { 0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99 } do
      write(folder .. "/cut.h5", whole:sub(1, math.floor(#whole * part)))
      local message = message_of(function() return ct.load(folder .. "/cut.h5", "cpu") end)
      assert.is_truthy(message:find("cut.h5", 1, true), message)
    end
  end)

  it("that is something else is an error that names the file", function()
    for _, text in ipairs { "", "hello", ("\0"):rep(5000), "\137HDF\r\n\26\n" .. ("x"):rep(3000) } do
      write(folder .. "/foreign.h5", text)
      local message = message_of(function() return ct.load(folder .. "/foreign.h5", "cpu") end)
      assert.is_truthy(message:find("foreign.h5", 1, true), message)
    end
  end)

  it("that does not exist or cannot be written is an error that names the path", function()
    assert.is_truthy(message_of(ct.load, folder .. "/none.h5"):find("none.h5", 1, true))
    assert.is_truthy(message_of(ct.save, { x = 1 }, folder .. "/no/such/a.h5"):find("/no/such", 1, true))
    assert.is_truthy(message_of(ct.save, { x = 1 }, "/proc/a.h5"):find("/proc", 1, true))
    assert.is_truthy(message_of(ct.save, { x = 1 }, folder):find(folder, 1, true))
  end)

  it("of what cannot be saved is an error that names the place", function()
    local message = message_of(ct.save, { model = { fn = print } }, folder .. "/a.h5")
    assert.is_truthy(message:find("fn", 1, true) and message:find("function", 1, true), message)
    local loop = {}
    loop.loop = loop
    message_of(ct.save, loop, folder .. "/a.h5")
    message_of(ct.save, 5, folder .. "/a.h5")
  end)
end)
