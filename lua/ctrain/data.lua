-- data.lua: ct.utils.data: datasets, loaders, schedules and the executor.

local datasets = require "ctrain.data.datasets"
local executor = require "ctrain.data.executor"
local loader = require "ctrain.data.loader"
local Schedule = require "ctrain.data.schedule"

local data = {
  DataExecutor = executor.DataExecutor, DataLoader = loader.DataLoader, HDF5Dataset = datasets.HDF5Dataset,
  Loader = loader.Loader, Schedule = Schedule, Subset = datasets.Subset, SyntheticDataset = datasets.SyntheticDataset,
  TensorDataset = datasets.TensorDataset, random_split = datasets.random_split,
}

-- The page has Schedule in a module of its own as well.
data.utils = { Schedule = Schedule }

return data
