-- loader.lua: Loader makes batches of a dataset's samples; DataLoader wraps the function that makes a loader, as
-- executors want it. Each epoch of a shuffled Loader has an order of its own, that of seed + epoch.

local core = require "ctrain.core"
local datasets = require "ctrain.data.datasets"
local options = require "ctrain.options"

local fail, is_tensor = options.fail, options.is_tensor

local loader = {}

-- ---- Loader ----------------------------------------------------------------------------------------------

---Joins samples to a batch: tensors are stacked, numbers and booleans become a tensor, tables are joined by key.
local function collate(samples)
  local first = samples[1]
  if is_tensor(first) then return core.Tensor.stack and core.Tensor.stack(samples, 1) or core.stack(samples, 1) end
  if type(first) == "number" or type(first) == "boolean" then return core.tensor(samples) end
  if type(first) ~= "table" then return samples end
  local batch = {}
  for key in pairs(first) do
    local parts = {}
    for i, sample in ipairs(samples) do
      parts[i] = sample[key]
      if parts[i] == nil then fail("Loader: sample %d of a batch has no '%s', the first one has", i, tostring(key)) end
    end
    batch[key] = collate(parts)
  end
  return batch
end

---@class data.Loader
local Loader = {}
Loader.__index = Loader
Loader.__len = function(self) return self:len() end
Loader.__name = "Loader"

---@param dataset table with len() and get(i) or get_batch(index)
---@param given table? batch_size (1), shuffle (false), drop_last (false), seed, collate(samples), map(sample)
function loader.Loader(dataset, given)
  local where = "Loader"
  datasets.check(where, dataset)
  local o = options.check(given, {
    batch_size = 1, shuffle = false, drop_last = false, seed = options.none, collate = options.none,
    map = options.none, num_workers = 0,
  }, where)
  options.integer(where, "batch_size", o.batch_size, 1)
  options.boolean(where, "shuffle", o.shuffle)
  options.boolean(where, "drop_last", o.drop_last)
  for _, name in ipairs { "collate", "map" } do
    if o[name] ~= nil and type(o[name]) ~= "function" then
      fail("%s: %s must be a function, not %s", where, name, options.describe_value(o[name]))
    end
  end
  if options.integer(where, "num_workers", o.num_workers, 0) > 0 then
    fail("%s: num_workers is %d; this build loads in process only (num_workers = 0)", where, o.num_workers)
  end
  local endless = dataset.endless == true
  if endless and o.shuffle then fail("%s: a dataset without an end cannot be shuffled", where) end
  if not dataset.get and (o.map or o.collate) then
    fail("%s: map and collate work on single samples, and the dataset has no get(i)", where)
  end
  local seed = o.shuffle and (o.seed and options.integer(where, "seed", o.seed) or datasets.draw_seed()) or nil
  return setmetatable({
    dataset = dataset, batch_size = math.floor(o.batch_size), shuffle = o.shuffle, drop_last = o.drop_last, seed = seed,
    map = o.map, collate = o.collate or collate, count = endless and math.huge or dataset:len(), epoch = 0,
    whole = not (o.map or o.collate) and dataset.get_batch,
  }, Loader)
end

---How many batches an epoch has.
---@return integer
function Loader:len()
  if self.count == math.huge then fail("Loader: the dataset has no length") end
  local round = self.drop_last and math.floor or math.ceil
  return math.floor(round(self.count / self.batch_size))
end

local function one_by_one(self, order, first, n)
  local samples = {}
  for i = 1, n do
    local position = order and order[first + i - 1] + 1 or first + i - 1
    local sample = self.dataset:get(position)
    if sample ~= nil and self.map then sample = self.map(sample) end
    if sample == nil then fail("Loader: sample %d of the dataset is nil", position) end
    samples[i] = sample
  end
  return self.collate(samples)
end

---for batch in loader:iter() do: one epoch.
function Loader:iter()
  local order = self.shuffle and datasets.permutation(self.count, self.seed + self.epoch) or nil
  self.epoch = self.epoch + 1
  local index
  if self.whole and self.count > 0 then
    index = order and core.tensor(order, { dtype = "int64" }) or core.arange(0, self.count, 1, { dtype = "int64" })
  end
  local done = 0
  return function()
    local n = math.min(self.batch_size, self.count - done)
    if n <= 0 or (n < self.batch_size and self.drop_last) then return nil end
    done = done + n
    if index then return self.dataset:get_batch(index:narrow(1, done - n + 1, n)) end
    return one_by_one(self, order, done - n + 1, n)
  end
end

-- ---- DataLoader ------------------------------------------------------------------------------------------

---@class data.DataLoader
local DataLoader = {}
DataLoader.__index = DataLoader
DataLoader.__len = function(self) return self:len() end
DataLoader.__name = "DataLoader"

local unpack = table.unpack or unpack -- luacheck: ignore

---Further arguments are passed on to input_fn, which is called when the first batch is asked for and returns a Loader,
---an object with iter(), or an iterator function that gives a batch at each call and nil at the end.
---@param input_fn function
function loader.DataLoader(input_fn, ...)
  if type(input_fn) ~= "function" then
    fail("DataLoader: input_fn must be a function, not %s", options.describe_value(input_fn))
  end
  return setmetatable({ input_fn = input_fn, n = select("#", ...), ... }, DataLoader)
end

-- What input_fn returned: an object with iter(), or nil where it gave an iterator function, kept for the next epoch.
local function source(self)
  if self.object or self.ready then return self.object end
  local made = self.input_fn(unpack(self, 1, self.n))
  local kind = type(made)
  if kind == "function" then
    self.ready = made
  elseif (kind == "table" or kind == "userdata") and not is_tensor(made) and type(made.iter) == "function" then
    self.object = made
  else
    fail("DataLoader: input_fn must return an object with iter() or an iterator function, not %s",
      options.describe_value(made))
  end
  return self.object
end

---for batch in dataloader:iter() do: one epoch.
function DataLoader:iter()
  local object = source(self)
  if object then
    local next_batch = object:iter()
    if type(next_batch) ~= "function" then
      fail("DataLoader: iter() must return an iterator function, not %s", options.describe_value(next_batch))
    end
    return next_batch
  end
  local next_batch = self.ready
  self.ready = nil
  return next_batch
end

---How many batches an epoch has; an error where that is unknown.
---@return integer
function DataLoader:len()
  local object = source(self)
  local count = object and type(object.len) == "function" and object:len()
  if not count then
    fail("DataLoader: could not infer the number of steps: what input_fn returns has no len(); give num_steps")
  end
  return count
end

function loader.is_dataloader(value) return type(value) == "table" and getmetatable(value) == DataLoader end

return loader
