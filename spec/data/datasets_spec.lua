-- Datasets, loaders and schedules.
local ct = require "ctrain"
local tensors = require "spec.support.tensors"

local data = ct.utils.data

local function message_of(fn, ...)
  local ok, message = pcall(fn, ...)
  assert.is_false(ok, "an error was expected")
  return tostring(message)
end

local function has(text, ...)
  for _, word in ipairs { ... } do assert.is_truthy(text:find(word, 1, true), text) end
end

local function numbers(list)
  local result = {}
  for i, value in ipairs(list) do result[i] = tonumber(value) end
  return result
end

-- The first tensors of a loader's batches, as lists.
local function batches(loader)
  local list = {}
  for batch in loader:iter() do list[#list + 1] = numbers((batch[1] or batch):totable()) end
  return list
end

local function flat(lists)
  local result = {}
  for _, list in ipairs(lists) do
    for _, value in ipairs(list) do result[#result + 1] = value end
  end
  return result
end

-- Samples that are made one by one: {value = i, pair = {i, -i}}.
local function one_by_one(n)
  return {
    len = function() return n end,
    get = function(_, i) return { value = i, pair = { ct.full({ 2 }, i), i % 2 == 0 } } end,
  }
end

describe("a TensorDataset", function()
  local set = data.TensorDataset(ct.arange(6):reshape(3, 2), ct.tensor { 10, 20, 30 })

  it("gives a sample as a list of rows, counted from 1", function()
    assert.equal(3, set:len())
    local sample = set:get(2)
    assert.same({ 2, 3 }, numbers(sample[1]:totable()))
    assert.equal(20, sample[2]:item())
  end)

  it("gives batches by positions from 0, in their order", function()
    assert.same({ 30, 10, 30 }, set:get_batch(ct.tensor({ 2, 0, 2 }, { dtype = "int64" }))[2]:totable())
  end)

  it("refuses samples out of range, 0 and between", function()
    for _, i in ipairs { 0, 4, -1 } do has(message_of(set.get, set, i), tostring(i), "3") end
    has(message_of(set.get, set, 1.5), "1.5", "whole")
  end)

  it("refuses tensors of different lengths, 0-d ones, and none", function()
    has(message_of(data.TensorDataset, ct.zeros(3), ct.zeros(4)), "4", "3")
    has(message_of(data.TensorDataset, ct.full({}, 1)), "0-d")
    has(message_of(data.TensorDataset), "one tensor")
  end)
end)

describe("a Subset", function()
  local set = data.TensorDataset(ct.tensor { 10, 20, 30, 40 })

  it("of a list takes numbers from 1, of a tensor from 0", function()
    assert.same({ { 40, 20 } }, batches(data.Loader(data.Subset(set, { 4, 2 }), { batch_size = 2 })))
    local index = ct.tensor({ 3, 1 }, { dtype = "int64" })
    assert.same({ { 40, 20 } }, batches(data.Loader(data.Subset(set, index), { batch_size = 2 })))
  end)

  it("of a subset is a subset", function()
    local inner = data.Subset(set, { 2, 3, 4 })
    assert.equal(40, data.Subset(inner, { 3 }):get(1)[1]:item())
  end)

  it("refuses positions that are no integers", function()
    has(message_of(data.Subset, set, ct.tensor { true, false }), "positions", "bool")
    has(message_of(data.Subset, set, ct.tensor { 0.5 }), "positions", "float32")
    has(message_of(data.Subset, set, { 1.5 }), "1.5")
  end)

  it("refuses a position that is not there", function() has(message_of(data.Subset, set, { 1, 5 }), "5", "4") end)
end)

describe("random_split", function()
  local set = data.TensorDataset(ct.arange(20))

  it("gives parts that share no sample and leave none out", function()
    local a, b, c = data.random_split(set, { 11, 6, 3 }, { seed = 1 })
    assert.same({ 11, 6, 3 }, { a:len(), b:len(), c:len() })
    local all = flat { flat(batches(data.Loader(a))), flat(batches(data.Loader(b))), flat(batches(data.Loader(c))) }
    table.sort(all)
    assert.same(numbers(ct.arange(20):totable()), all)
  end)

  it("depends on the seed alone", function()
    local function first(seed)
      return flat(batches(data.Loader((data.random_split(set, { 10, 10 }, { seed = seed })))))
    end
    assert.same(first(4), first(4))
    assert.are_not.same(first(4), first(5))
  end)

  it("without a seed follows ct.manual_seed", function()
    local function first()
      ct.manual_seed(9)
      return flat(batches(data.Loader((data.random_split(set, { 10, 10 })))))
    end
    assert.same(first(), first())
  end)

  it("takes fractions, the remainder going to the first parts", function()
    local a, b, c = data.random_split(data.TensorDataset(ct.arange(10)), { 0.5, 0.25, 0.25 }, { seed = 1 })
    assert.same({ 6, 2, 2 }, { a:len(), b:len(), c:len() })
  end)

  it("refuses lengths that do not add up", function()
    has(message_of(data.random_split, set, { 10, 11 }), "21", "20")
    has(message_of(data.random_split, set, { 25, -5 }), "lengths[2]", "-5")
  end)
end)

describe("a SyntheticDataset", function()
  it("clones tensors, calls functions with the number of the sample, and keeps the nesting", function()
    local x = ct.ones(2)
    local set = data.SyntheticDataset({ x = x, deep = { function(i) return ct.full({}, i * 10) end } }, 3)
    local sample = set:get(2)
    assert.same({ 1, 1 }, sample.x:totable())
    sample.x:fill_(5)
    assert.same({ 1, 1 }, x:totable())
    assert.equal(20, sample.deep[1]:item())
    assert.equal(3, set:len())
  end)

  it("without num_samples never ends", function()
    local loader = data.DataLoader(function()
      return data.Loader(data.SyntheticDataset { ct.ones(3) }, { batch_size = 4 })
    end)
    local n = 0
    for batch in data.DataExecutor(loader, { num_steps = 5 }) do
      assert.same({ 4, 3 }, batch[1].shape)
      n = n + 1
    end
    assert.equal(5, n)
  end)

  it("takes a specification by name alone", function()
    assert.same({ 1, 1 }, data.SyntheticDataset({ x = ct.ones(2) }):get(7).x:totable())
    assert.equal(2, data.SyntheticDataset({ sample_spec = { x = ct.ones(2) }, num_samples = 2 }):len())
  end)

  it("refuses an empty specification, other leaves, no samples, and a length it has not", function()
    has(message_of(data.SyntheticDataset, {}), "sample_spec", "empty")
    has(message_of(data.SyntheticDataset, { x = 5 }), "sample_spec", "5")
    has(message_of(data.SyntheticDataset, { ct.ones(1) }, 0), "num_samples", "0")
    local endless = data.SyntheticDataset { ct.ones(1) }
    has(message_of(endless.len, endless), "num_samples")
    has(message_of(data.Loader, endless, { shuffle = true }), "shuffled")
  end)
end)

describe("a Loader", function()
  it("joins samples: tensors stacked, numbers and booleans as tensors, tables by key", function()
    local batch = data.Loader(one_by_one(2), { batch_size = 2 }):iter()()
    assert.same({ 1, 2 }, batch.value:totable())
    assert.same({ { 1, 1 }, { 2, 2 } }, batch.pair[1]:totable())
    assert.same({ false, true }, batch.pair[2]:totable())
  end)

  it("maps samples and joins them as told", function()
    local loader = data.Loader(one_by_one(3), {
      batch_size = 3, map = function(sample) return sample.value * 10 end,
      collate = function(list) return { ct.tensor { list[1] + list[2] + list[3] } } end,
    })
    assert.same({ { 60 } }, batches(loader))
  end)

  it("keeps the order unless told to shuffle", function()
    local loader = data.Loader(data.TensorDataset(ct.arange(5)), { batch_size = 2 })
    assert.same({ { 0, 1 }, { 2, 3 }, { 4 } }, batches(loader))
  end)

  it("gives the same batches from get as from get_batch", function()
    local set = data.TensorDataset(ct.arange(9))
    local plain = { len = function() return set:len() end, get = function(_, i) return set:get(i) end }
    local options = { batch_size = 4, shuffle = true, seed = 2 }
    assert.same(batches(data.Loader(set, options)), batches(data.Loader(plain, options)))
  end)

  it("counts its batches", function()
    local set = data.TensorDataset(ct.arange(10))
    assert.equal(4, data.Loader(set, { batch_size = 3 }):len())
    assert.equal(3, data.Loader(set, { batch_size = 3, drop_last = true }):len())
  end)

  it("of no samples gives no batch", function()
    assert.same({}, batches(data.Loader(data.TensorDataset(ct.zeros(0, 2)), { batch_size = 3 })))
  end)

  it("takes no random number after it was made", function()
    local loader = data.Loader(data.TensorDataset(ct.arange(10)), { batch_size = 3, shuffle = true })
    ct.manual_seed(6)
    local expected = ct.rand(4)
    ct.manual_seed(6)
    batches(loader)
    tensors.identical(ct.rand(4), expected)
  end)

  it("refuses options that make no sense, by name", function()
    local set = data.TensorDataset(ct.arange(10))
    has(message_of(data.Loader, set, { batch_size = 0 }), "batch_size", "0")
    has(message_of(data.Loader, set, { batch_size = 2.5 }), "batch_size", "2.5")
    has(message_of(data.Loader, set, { batch_size = 0 / 0 }), "batch_size", "nan")
    has(message_of(data.Loader, set, { shuffle = "yes" }), "shuffle", "'yes'")
    has(message_of(data.Loader, set, { batchsize = 2 }), "'batchsize'", "'batch_size'")
    has(message_of(data.Loader, set, { map = 5 }), "map", "function")
    has(message_of(data.Loader, set, { num_workers = 2 }), "num_workers", "2")
    has(message_of(data.Loader, ct.arange(4)), "dataset", "len()")
  end)

  it("names a sample that the dataset does not give", function()
    local set = { len = function() return 3 end, get = function(_, i) return i < 3 and ct.ones(1) or nil end }
    has(message_of(batches, data.Loader(set, { batch_size = 2 })), "sample 3", "nil")
  end)

  it("names the key that a sample lacks", function()
    local set = {
      len = function() return 2 end,
      get = function(_, i) return i == 1 and { a = 1, b = 2 } or { a = 1 } end,
    }
    has(message_of(function() data.Loader(set, { batch_size = 2 }):iter()() end), "'b'", "sample 2")
  end)
end)

describe("a DataLoader", function()
  it("calls its input function when the first batch is asked for, and once", function()
    local calls = 0
    local loader = data.DataLoader(function()
      calls = calls + 1
      return data.Loader(data.TensorDataset(ct.arange(3)))
    end)
    assert.equal(0, calls)
    batches(loader)
    batches(loader)
    assert.equal(1, calls)
    assert.equal(3, loader:len())
  end)

  it("calls it again for each epoch where it gives an iterator function", function()
    local calls = 0
    local loader = data.DataLoader(function()
      calls = calls + 1
      local i = 0
      return function()
        i = i + 1
        return i <= 2 and { ct.full({ 1 }, i + 10 * calls) } or nil
      end
    end)
    assert.same({ { 11 }, { 12 } }, batches(loader))
    assert.same({ { 21 }, { 22 } }, batches(loader))
  end)

  it("refuses an input function that gives nothing to iterate", function()
    for _, made in ipairs { 5, "text", { 1 }, ct.ones(2) } do
      has(message_of(function() data.DataLoader(function() return made end):iter() end), "iter()")
    end
    local odd = data.DataLoader(function() return { iter = function() return 5 end } end)
    has(message_of(odd.iter, odd), "iterator function", "5")
  end)

  it("says what to give where its length is unknown", function()
    local loader = data.DataLoader(function() return function() return nil end end)
    has(message_of(loader.len, loader), "num_steps")
    has(message_of(data.DataExecutor, loader), "num_steps")
  end)
end)

describe("a Schedule", function()
  local Range = data.Schedule.Range
  local schedule = data.Schedule { Range(2, 9, 3), Range(10, 15, 2, true) }

  it("lists, counts and bounds its steps", function()
    local steps = {}
    for step in schedule:iter() do steps[#steps + 1] = step end
    assert.same({ 2, 5, 8, 10, 12, 14 }, steps)
    assert.equal(6, schedule:len())
    assert.same({ 2, 14 }, { schedule.start, schedule.final_step })
  end)

  it("lists exactly the steps it matches", function()
    local listed = {}
    for step in schedule:iter() do listed[step] = true end
    for step = 0, 20 do assert.equal(listed[step] or false, schedule:match(step), "step " .. step) end
  end)

  it("gives the next step from any step on", function()
    local next_steps = {}
    for step = 0, 14 do next_steps[#next_steps + 1] = schedule:next_immediate_step(step) end
    assert.same({ 2, 2, 2, 5, 5, 5, 8, 8, 8, 10, 10, 12, 12, 14, 14 }, next_steps)
  end)

  it("adds the last step of a range where it is told to", function()
    local range = Range(0, 6, 4, true)
    local steps = {}
    for step in range:iter() do steps[#steps + 1] = step end
    assert.same({ 0, 4, 5 }, steps)
    assert.equal(3, range:len())
    assert.equal(5, range:next_immediate_step(5))
  end)

  it("refuses a step beyond the end", function()
    has(message_of(schedule.next_immediate_step, schedule, 15), "15", "14")
  end)

  it("refuses what is no list of ranges", function()
    has(message_of(data.Schedule, {}), "intervals")
    has(message_of(data.Schedule, { 5 }), "interval 1", "5")
    has(message_of(data.Schedule, { Range(4, 8), Range(7, 9) }), "interval 2", "7", "8")
  end)
end)
