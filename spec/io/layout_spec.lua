-- The checkpoint layout 0.5: what ct.save writes where, odd keys and trees, and files that only look like checkpoints.
local core = require "ctrain.core"
local ct = require "ctrain"
local json = require "ctrain.json"
local process = require "spec.support.process"
local tensors = require "spec.support.tensors"

local folder, path

local function message_of(fn, ...)
  local ok, message = pcall(fn, ...)
  assert.is_false(ok, "an error was expected")
  return tostring(message)
end

local function has(text, ...)
  for _, word in ipairs { ... } do assert.is_truthy(text:find(word, 1, true), text) end
end

local function round_trip(value)
  ct.save(value, path)
  return ct.load(path)
end

-- fn(file) on the saved file.
local function inspect(value, fn)
  ct.save(value, path)
  local file = core.h5.open(path, "spec")
  local ok, problem = pcall(fn, file)
  file:close()
  if not ok then error(problem, 0) end
end

-- A file of attributes, put in place.
local function make(attributes, fill)
  local file = core.h5.create(path, "spec")
  if fill then fill(file) end
  for name, value in pairs(attributes) do file:set(nil, name, value) end
  file:commit()
  file:close()
end

before_each(function()
  folder = process.folder()
  path = folder .. "/a.h5"
end)
after_each(function() process.remove(folder) end)

describe("a checkpoint file", function()
  it("names its datasets by the keys, list items from 0", function()
    inspect({ model = { ["fc.weight"] = ct.ones(2) }, list = { ct.ones(1), { ct.zeros(1) } } }, function(file)
      local names = file:datasets()
      table.sort(names)
      assert.same({ "list.0", "list.1.0", "model.fc.weight" }, names)
    end)
  end)

  it("says its version and that it is whole", function()
    inspect({ a = 1 }, function(file)
      assert.equal(0.5, file:get(nil, "__version__"))
      assert.is_true(file:get(nil, "__SUCCESS__"))
    end)
  end)

  it("describes a tensor beside its dataset", function()
    inspect({ a = ct.zeros(2, 3) }, function(file)
      assert.equal("TorchTensorSerializer", file:get("a", "__TYPE__"))
      assert.is_true(file:get("a", "__TORCH__"))
      assert.equal("torch.float32", file:get("a", "dtypes"))
    end)
  end)

  it("keeps numbers and strings in the metadata, without datasets", function()
    inspect({ n = 2.5, s = "text" }, function(file)
      assert.same({}, file:datasets())
      local n = json.decode(file:get(nil, "n.__metadata__"))["n.__metadata__"]
      local s = json.decode(file:get(nil, "s.__metadata__"))["s.__metadata__"]
      assert.same({ "ScalarSerializer", 2.5 }, { n.__TYPE__, n.scalar_value })
      assert.same({ "StringSerializer", "text" }, { s.__TYPE__, s.string_value })
    end)
  end)

  it("links the second key of a tied tensor to the first", function()
    local t = ct.ones(3)
    inspect({ a = t, b = t }, function(file)
      assert.same({ "a" }, file:datasets())
      local link = json.decode(file:get(nil, "b.__metadata__"))["b.__metadata__"]
      assert.same({ "LinkedObject", true, "a" }, { link.__TYPE__, link.__LINKED__, link.key })
    end)
  end)

  it("has the tree as a skeleton with a star for each leaf", function()
    inspect({ a = { 1, ct.ones(1) }, b = "x" }, function(file)
      local skeleton = json.decode(file:get(nil, "__spec__"))[1]
      assert.same({ "*", "*" }, { skeleton.a[1], skeleton.a[2] })
      assert.equal("*", skeleton.b)
    end)
  end)

  it("keeps bfloat16 bits in 16-bit words", function()
    inspect({ a = ct.tensor({ 1, -2 }, { dtype = "bfloat16" }) }, function(file)
      assert.is_true(file:get("a", "is_bfloat16"))
    end)
  end)
end)

describe("ct.load gives back", function()
  it("keys that have dots, slashes, percents and nothing in them", function()
    local value = { ["a.b"] = 1, ["a/b"] = 2, ["%41"] = 3, [""] = 4, ["ü"] = 5, ["."] = 6 }
    assert.same(value, round_trip(value))
  end)

  it("keys that are written alike, apart", function()
    local value = { a = { b = 1 }, ["a.b"] = 2, ["1"] = 3, [1] = 4 }
    assert.same(value, round_trip(value))
  end)

  it("keys that are numbers and booleans, with their types", function()
    local value = { [0] = "zero", [7] = "seven", [-2] = "minus two", [true] = "yes", [2.5] = "half" }
    assert.same(value, round_trip(value))
  end)

  it("empty tables, and lists in lists", function()
    local value = { empty = {}, nested = { { 1, 2 }, { 3 } } }
    assert.same(value, round_trip(value))
  end)

  it("bytes that are no UTF-8", function()
    local value = { bytes = "\255\0\128", ["\254key"] = "value" }
    assert.same(value, round_trip(value))
  end)

  it("numbers as they are: large, small, infinite, whole", function()
    local value = { 2 ^ 53, -2 ^ 53, 5e-324, math.huge, -math.huge, 0.1, 1e300 }
    assert.same(value, round_trip(value))
    local nan = round_trip({ 0 / 0 })[1]
    assert.is_true(nan ~= nan)
  end)

  it("integers beyond 2^53", function()
    local t = ct.full({}, 2 ^ 62, { dtype = "int64" }) + 1
    assert.is_true(round_trip({ t = t }).t:eq(t):item())
  end)

  it("tensors of 0 dimensions and of no elements", function()
    local back = round_trip { a = ct.full({}, 5), b = ct.zeros(0, 3) }
    assert.same({}, back.a.shape)
    assert.equal(5, back.a:item())
    assert.same({ 0, 3 }, back.b.shape)
  end)

  it("a tree of more than 64 KiB of names", function()
    local value = {}
    for i = 1, 800 do value[("layer_%d_%s"):format(i, ("x"):rep(100))] = i end
    assert.same(value, round_trip(value))
  end)

  it("tensors that need no gradient, whatever was saved", function()
    local back = round_trip { p = ct.nn.Parameter(ct.ones(2)) }
    assert.is_false(back.p.requires_grad)
  end)

  it("values of the time of the call, not later ones", function()
    local t = ct.ones(2)
    ct.save({ t = t }, path)
    t:fill_(9)
    assert.same({ 1, 1 }, ct.load(path).t:totable())
  end)

  it("tensors of their own: writing to one leaves the file alone", function()
    ct.save({ t = ct.ones(2) }, path)
    ct.load(path).t:fill_(3)
    assert.same({ 1, 1 }, ct.load(path).t:totable())
  end)

  it("what a file without a tree holds, by its names", function()
    make({ __version__ = 0.5, __SUCCESS__ = true }, function(file) file:write("x.y", ct.ones(2)) end)
    assert.same({ 1, 1 }, ct.load(path)["x.y"]:totable())
  end)

  it("the same for each map_location that is known", function()
    ct.save({ t = ct.ones(2) }, path)
    for _, place in ipairs { "cache", "cpu" } do
      assert.same({ 1, 1 }, ct.load(path, { map_location = place }).t:totable())
    end
  end)

  it("and consumes no random numbers", function()
    ct.save({ t = ct.ones(2) }, path)
    ct.manual_seed(4)
    local expected = ct.rand(3)
    ct.manual_seed(4)
    ct.load(path)
    tensors.identical(ct.rand(3), expected)
  end)
end)

describe("ct.load refuses, naming the file,", function()
  it("a file whose writer was stopped before the end", function()
    make { __version__ = 0.5 }
    has(message_of(ct.load, path), path, "partially written checkpoint")
  end)

  it("HDF5 that is no checkpoint", function()
    make({}, function(file) file:write("x", ct.ones(1)) end)
    has(message_of(ct.load, path), path, "not a checkpoint")
  end)

  it("a layout of another version", function()
    make { __version__ = 0.9, __SUCCESS__ = true }
    has(message_of(ct.load, path), path, "0.9", "0.5")
  end)

  it("a tree that is no JSON", function()
    make { __version__ = 0.5, __SUCCESS__ = true, __spec__ = "[{]" }
    has(message_of(ct.load, path), path, "__spec__")
  end)

  it("a tree with a leaf that is not there", function()
    make { __version__ = 0.5, __SUCCESS__ = true, __spec__ = '[{"a": "*"}, null]' }
    has(message_of(ct.load, path), path, "'a'")
  end)

  it("a link to itself", function()
    make { __version__ = 0.5, __SUCCESS__ = true, __spec__ = '[{"a": "*"}, null]',
      ["a.__metadata__"] = '{"a.__metadata__": {"__LINKED__": true, "key": "a"}}' }
    has(message_of(ct.load, path), path, "'a'", "link")
  end)

  it("a map_location that is none", function()
    ct.save({ a = 1 }, path)
    has(message_of(ct.load, path, "moon"), "map_location", "'moon'")
  end)

  it("a folder", function() has(message_of(ct.load, folder), folder) end)
end)

describe("ct.save refuses", function()
  it("no path", function() has(message_of(ct.save, { a = 1 }), "checkpoint_file", "nil") end)

  it("objects, with the advice to save their state", function()
    has(message_of(ct.save, { net = ct.nn.Linear(1, 1) }, path), "'net'", "state_dict")
  end)

  it("a table that contains itself, by its place", function()
    local inner = {}
    inner.again = inner
    has(message_of(ct.save, { a = inner }, path), "'a.again'", "itself")
  end)

  it("keys that are tables", function() has(message_of(ct.save, { a = { [{}] = 1 } }, path), "'a'", "key") end)

  it("inside a traced step", function()
    local step = ct.trace(function(x) ct.save({ x = x }, path) end)
    has(message_of(step, ct.ones(1)), "ct.save", "checkpoint_closure")
  end)

  it("a folder that cannot be written, and leaves nothing behind", function()
    has(message_of(ct.save, { a = 1 }, folder .. "/none/a.h5"), folder .. "/none/a.h5")
    assert.equal("", process.run("ls -A " .. process.quote(folder)).out)
  end)

  it("a disk that is full, keeping the old file", function()
    if process.run("test -w /dev/full").code ~= 0 then return pending("/dev/full is not here") end
    has(message_of(ct.save, { a = 1 }, "/dev/full/a.h5"), "/dev/full")
  end)
end)

describe("a process killed in the middle of a save", function()
  it("leaves the old file whole", function()
    ct.save({ generation = 1 }, path)
    -- the file size limit ends the process while it writes
    local result = process.run(("ulimit -f 64; %s -e %s"):format(process.interpreter(), process.quote(
      ('local ct = require "ctrain" ct.save({ generation = 2, t = ct.ones(1000000) }, %q)'):format(path))))
    assert.are_not.equal(0, result.code)
    assert.equal(1, ct.load(path).generation)
  end)
end)
