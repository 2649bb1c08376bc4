-- datasets.lua: what samples are taken from. A dataset has len(), get(i) with i from 1, which gives one sample, a
-- (nested) table of tensors, and may have get_batch(index), which takes a tensor of positions from 0 and gives
-- the samples stacked. The datasets here have both where their source allows it.

local core = require "ctrain.core"
local options = require "ctrain.options"
require "ctrain.tensor"

local fail, is_tensor = options.fail, options.is_tensor

local datasets = {}

local function class(name, construct)
  local methods = { class_name = name }
  methods.__index = methods
  methods.__len = function(self) return self:len() end
  methods.__name = name
  return setmetatable(methods, {
    __call = function(_, ...) return construct(setmetatable({}, methods), ...) end,
    __tostring = function() return "class " .. name end,
  })
end

---Raises unless `i` is a position in a dataset of `count` samples.
local function position(where, i, count)
  i = options.integer(where, "i", i)
  if i < 1 or i > count then fail("%s: sample %d is out of range; there are %d, counted from 1", where, i, count) end
  return i
end

-- ---- Tensors ---------------------------------------------------------------------------------------------

-- Tensors with a common first extent: sample i is the list of their i-th rows.
local function keep_tensors(self, tensors, names)
  local where = self.class_name
  for i, tensor in ipairs(tensors) do
    local name = names and "'" .. names[i] .. "'" or "tensor " .. i
    options.tensor(where, name, tensor)
    if tensor.ndim == 0 then fail("%s: %s is 0-d; its first dimension counts samples", where, name) end
    self.count = self.count or #tensor
    if #tensor ~= self.count then
      fail("%s: %s has %d samples, the first one %d", where, name, #tensor, self.count)
    end
  end
  self.tensors = tensors
  return self
end

---@class data.TensorDataset
local TensorDataset = class("TensorDataset", function(self, ...)
  local tensors = { ... }
  if type(tensors[1]) == "table" and getmetatable(tensors[1]) == nil and #tensors == 1 then tensors = tensors[1] end
  if #tensors == 0 then fail("TensorDataset: expected one tensor or more") end
  return keep_tensors(self, tensors)
end)

function TensorDataset:len() return self.count end

function TensorDataset:get(i)
  i = position(self.class_name, i, self.count)
  local sample = {}
  for k, tensor in ipairs(self.tensors) do sample[k] = tensor[i] end
  return sample
end

function TensorDataset:get_batch(index)
  local batch = {}
  for k, tensor in ipairs(self.tensors) do batch[k] = tensor:index_select(1, index) end
  return batch
end

---Datasets of an HDF5 file by name, read whole: sample i is the list of their i-th rows, in the order of the names.
local HDF5Dataset = class("HDF5Dataset", function(self, path, names)
  if type(path) ~= "string" then fail("HDF5Dataset: path must be a string, not %s", options.describe_value(path)) end
  if type(names) == "string" then names = { names } end
  if type(names) ~= "table" or #names == 0 then
    fail("HDF5Dataset: names must be a list of the file's datasets, not %s", options.describe_value(names))
  end
  local file = core.h5.open(path, "HDF5Dataset")
  local there, known = {}, file:datasets()
  for _, name in ipairs(known) do there[name] = true end
  local ok, result = pcall(function()
    local tensors = {}
    for i, name in ipairs(names) do
      if not there[name] then
        local near = options.nearest(tostring(name), known)
        fail("HDF5Dataset: '%s' has no dataset '%s'%s", path, tostring(name),
          near and " (did you mean '" .. near .. "'?)" or "; it has " .. table.concat(known, ", "))
      end
      tensors[i] = file:read(name)
    end
    return tensors
  end)
  file:close()
  if not ok then error(result, 0) end
  return keep_tensors(self, result, names)
end)

for _, name in ipairs { "len", "get", "get_batch" } do HDF5Dataset[name] = TensorDataset[name] end

-- ---- Parts -----------------------------------------------------------------------------------------------

local function check_dataset(where, dataset)
  local kind = type(dataset)
  if (kind ~= "table" and kind ~= "userdata") or is_tensor(dataset) or type(dataset.len) ~= "function"
    or (type(dataset.get) ~= "function" and type(dataset.get_batch) ~= "function") then
    fail("%s: dataset must have len() and get(i) or get_batch(index); %s has not", where,
      options.describe_value(dataset))
  end
  return dataset
end

datasets.check = check_dataset

---Some samples of a dataset: positions is a list of numbers from 1, or an integer tensor, whose values count from 0.
local Subset = class("Subset", function(self, dataset, positions)
  check_dataset("Subset", dataset)
  local count, index = dataset:len(), {}
  if is_tensor(positions) then
    if positions.ndim ~= 1 then fail("Subset: positions must have one dimension, not %d", positions.ndim) end
    if positions:is_floating_point() or positions.dtype == "bool" then
      fail("Subset: positions must be integers, not %s", positions.dtype)
    end
    for i, value in ipairs(positions:totable()) do index[i] = value + 1 end
  elseif type(positions) == "table" then
    for i, value in ipairs(positions) do index[i] = value end
  else
    fail("Subset: positions must be a list or a tensor, not %s", options.describe_value(positions))
  end
  for i = 1, #index do index[i] = position("Subset", index[i], count) end
  self.dataset, self.positions = dataset, index
  local from_zero = {}
  for i, value in ipairs(index) do from_zero[i] = value - 1 end
  self.index = #index > 0 and core.tensor(from_zero, { dtype = "int64" }) or core.zeros({ 0 }, { dtype = "int64" })
  if not dataset.get_batch then self.get_batch = false end
  if not dataset.get then self.get = false end
  return self
end)

function Subset:len() return #self.positions end

function Subset:get(i) return self.dataset:get(self.positions[position("Subset", i, #self.positions)]) end

function Subset:get_batch(index) return self.dataset:get_batch(self.index:index_select(1, index)) end

-- ---- Permutations ----------------------------------------------------------------------------------------

-- L'Ecuyer's combined generator (1988), in integers that doubles hold: the same on both Lua versions.
local function generator(seed)
  local low = seed % 2147483648
  local a, b = 1 + low % 2147483562, 1 + (low % 65536 * 69069 + math.floor(seed / 65536) + 12345) % 2147483398
  local function draw()
    a, b = 40014 * a % 2147483563, 40692 * b % 2147483399
    return (a - b) % 2147483562
  end
  for _ = 1, 16 do draw() end
  return draw
end

---The numbers 0 .. count - 1 in an order that depends on the seed alone.
---@return integer[]
function datasets.permutation(count, seed)
  local draw, order = generator(seed), {}
  for i = 1, count do order[i] = i - 1 end
  for i = count, 2, -1 do
    local j = draw() % i + 1
    order[i], order[j] = order[j], order[i]
  end
  return order
end

---A seed for what was given none: it comes from ct.manual_seed.
---@return integer
function datasets.draw_seed() return math.floor(core.randint(0, 2 ^ 31 - 1, {}, { dtype = "int64" }):item()) end

---Parts of a dataset without common samples: lengths are counts that add up to len(), or fractions that add up to 1.
---@param lengths number[]
---@param given table? seed: of the order; default: from ct.manual_seed
---@return data.Subset ... one for each length
local function random_split(dataset, lengths, given)
  local where = "random_split"
  check_dataset(where, dataset)
  local o = options.check(given, { seed = options.none }, where)
  if type(lengths) ~= "table" or #lengths == 0 then
    fail("%s: lengths must be a list of numbers, not %s", where, options.describe_value(lengths))
  end
  local count, counts, sum = dataset:len(), {}, 0
  for i, value in ipairs(lengths) do sum = sum + options.number(where, "lengths[" .. i .. "]", value, 0) end
  if math.abs(sum - 1) < 1e-9 and count ~= 1 then
    local used = 0
    for i, value in ipairs(lengths) do
      counts[i] = math.floor(value * count)
      used = used + counts[i]
    end
    for i = 1, count - used do counts[(i - 1) % #counts + 1] = counts[(i - 1) % #counts + 1] + 1 end
  elseif sum == count then
    for i, value in ipairs(lengths) do counts[i] = options.integer(where, "lengths[" .. i .. "]", value, 0) end
  else
    fail("%s: the lengths add up to %s; expected %d, or fractions that add up to 1", where, tostring(sum), count)
  end
  local seed = o.seed and options.integer(where, "seed", o.seed) or datasets.draw_seed()
  local order = datasets.permutation(count, seed)
  local parts, at = {}, 0
  for i, n in ipairs(counts) do
    local positions = {}
    for k = 1, n do positions[k] = order[at + k] + 1 end
    at = at + n
    parts[i] = Subset(dataset, positions)
  end
  return (table.unpack or unpack)(parts) -- luacheck: ignore
end

-- ---- Synthetic samples -----------------------------------------------------------------------------------

local function check_spec(spec, depth)
  local found = false
  if is_tensor(spec) or type(spec) == "function" then return true end
  if type(spec) ~= "table" or getmetatable(spec) ~= nil then
    fail("SyntheticDataset: sample_spec may hold tensors, functions of the index and tables of these, not %s",
      options.describe_value(spec))
  end
  if depth > 50 then fail("SyntheticDataset: sample_spec is nested too deeply") end
  for _, part in next, spec do found = check_spec(part, depth + 1) or found end
  return found
end

local function make_sample(spec, i)
  if is_tensor(spec) then return spec:clone() end
  if type(spec) == "function" then
    local made = spec(i)
    if not is_tensor(made) then
      fail("SyntheticDataset: a function of sample_spec gave %s; expected a tensor", options.describe_value(made))
    end
    return made
  end
  local sample = {}
  for key, part in next, spec do sample[key] = make_sample(part, i) end
  return sample
end

---Samples made from a specification: tensors, which are cloned, functions of the sample's number (from 1), and nested
---tables of these. Without num_samples they never end.
local SyntheticDataset = class("SyntheticDataset", function(self, spec, ...)
  local read = options.signature("SyntheticDataset", { "sample_spec" }, { "num_samples" })
  local o
  if select("#", ...) > 0 or (type(spec) == "table" and spec.sample_spec ~= nil) then
    o = read(spec, ...)
  else
    o = read(spec, {}) -- a specification by name is not taken for named options
  end
  if not check_spec(o.sample_spec, 1) then fail("SyntheticDataset: sample_spec is empty") end
  if o.num_samples ~= nil then options.integer("SyntheticDataset", "num_samples", o.num_samples, 1) end
  self.sample_spec, self.num_samples = o.sample_spec, o.num_samples
  self.endless = o.num_samples == nil
  return self
end)

function SyntheticDataset:len()
  if self.endless then fail("SyntheticDataset: without num_samples there is no length") end
  return self.num_samples
end

function SyntheticDataset:get(i)
  i = options.integer("SyntheticDataset", "i", i, 1)
  if not self.endless then position("SyntheticDataset", i, self.num_samples) end
  return make_sample(self.sample_spec, i)
end

datasets.TensorDataset, datasets.HDF5Dataset, datasets.Subset = TensorDataset, HDF5Dataset, Subset
datasets.SyntheticDataset, datasets.random_split = SyntheticDataset, random_split

return datasets
