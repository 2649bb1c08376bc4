-- HDF5 files that other programs wrote, where they are beside the repository (../shared/files): values by their
-- recorded sums, and damaged ones as errors.
local ct = require "ctrain"
local process = require "spec.support.process"

local root = (debug.getinfo(1, "S").source:match("^@(.*)spec/io/files_spec%.lua$") or "./") .. "../shared/files/hdf5/"
local HDF5Dataset = ct.utils.data.HDF5Dataset

local function is_there(name)
  local file = io.open(root .. name, "rb")
  if file then file:close() end
  return file ~= nil
end

-- it(), or pending where the file is not here.
local function with(name, text, fn)
  it(text, function()
    if not is_there(name) then return pending("there is no " .. root .. name) end
    fn(root .. name)
  end)
end

-- The dataset as a tensor.
local function read(path, name)
  local set = HDF5Dataset(path, name)
  return set:get_batch(ct.arange(set:len()))[1]
end

local function agrees(path, name, shape, dtype, sum, tolerance)
  local t = read(path, name)
  assert.same(shape, t.shape)
  assert.equal(dtype, t.dtype)
  assert.is_true(math.abs(t:double():sum():item() - sum) <= (tolerance or 0), name)
end

describe("a file from elsewhere:", function()
  with("antont-cerebras+checkpoint-studio+tiny.hdf5", "a checkpoint of layout 0.5", function(path)
    local state = ct.load(path)
    local expected = {
      ["lm_head.weight"] = { "float16", 70 }, ["model.norm.weight"] = { "float32", 3 },
      ["model.scale.i8"] = { "int8", -4 }, ["model.layers.0.self_attn.q_proj.weight"] = { "int32", 40 },
      ["model.layers.0.custom_proj.weight"] = { "int32", 190 },
      ["model.layers.1.block_sparse_moe.experts.down_proj.weight.codebook"] = { "float16", 56 },
    }
    for name, facts in pairs(expected) do
      assert.equal(facts[1], state[name].dtype, name)
      assert.equal(facts[2], state[name]:double():sum():item(), name)
    end
    assert.equal("1.5", state.inference_version)
    assert.same({ 0, 0.5, 1, 1.5 }, state["lm_head.weight"][1]:totable())
  end)

  with("mokus0+hdf5+be_data.h5", "both byte orders, and the filters deflate, fletcher32, shuffle, scale-offset",
    function(path)
      for _, order in ipairs { "be", "le" } do
        agrees(path, "Array_" .. order, { 7, 6 }, "float64", 58.79999956488609, 1e-12)
        for _, filter in ipairs { "Deflate", "Fletcher", "Shuffle" } do
          agrees(path, filter .. "_float_data_" .. order, { 7, 6 }, "float32", 58.79999956488609, 1e-12)
        end
        agrees(path, "Scale_offset_char_data_" .. order, { 7, 6 }, "int8", 168)
        agrees(path, "Scale_offset_short_data_" .. order, { 7, 6 }, "int16", 168)
        agrees(path, "Scale_offset_long_long_data_" .. order, { 7, 6 }, "int64", 168)
      end
    end)

  with("jamesmudd+jhdf+hdf_v14_test1.hdf5", "big-endian integers and doubles", function(path)
    agrees(path, "dset1", { 10, 20 }, "int32", 2800)
    agrees(path, "dset2", { 30, 20 }, "float64", 8700.57, 1e-8)
  end)

  with("jamesmudd+jhdf+float_special_values_latest.hdf5", "infinities, NaN and zeros in three widths", function(path)
    for _, name in ipairs { "float16", "float32", "float64" } do
      local values = read(path, name):double():totable()
      assert.same({ math.huge, -math.huge, 0, 0 }, { values[1], values[2], values[4], values[5] })
      assert.is_true(values[3] ~= values[3])
      assert.same({ math.huge, -math.huge }, { 1 / values[4], 1 / values[5] })
      assert.equal(name, read(path, name).dtype)
    end
  end)

  with("usnistgov+h5wasm+compressed.h5", "chunks with deflate and shuffle", function(path)
    agrees(path, "gzip", { 100, 100 }, "float64", 5012.848641394026, 1e-9)
    agrees(path, "gzip_shuffle", { 100, 100 }, "float64", 5012.848641394026, 1e-9)
  end)

  with("mokus0+hdf5+be_data.h5", "floats of 20 bits are refused by name", function(path)
    local ok, message = pcall(HDF5Dataset, path, { "Nbit_float_data_le" })
    assert.is_false(ok)
    assert.is_truthy(message:find("Nbit_float_data_le", 1, true), message)
  end)

  with("jjhelmus+pyfive+filter_pipeline_v2.hdf5", "the second version of filter pipelines",
    function(path) agrees(path, "data", { 10, 10, 10 }, "float64", 1000) end)

  with("PyTables+PyTables+smpl_f64be.h5", "a table of PyTables",
    function(path) agrees(path, "TestArray", { 6, 5 }, "float64", 135) end)

  with("h5py+h5py+vlen_string_s390x.h5", "numbers beside strings of any length, which are refused", function(path)
    agrees(path, "DSBEint", { 5 }, "int64", 15)
    agrees(path, "DSLEfloat", { 5 }, "float64", 11.07, 1e-12)
    local ok, message = pcall(HDF5Dataset, path, { "DSvariable" })
    assert.is_false(ok)
    assert.is_truthy(message:find("DSvariable", 1, true), message)
  end)

  with("usnistgov+h5wasm+empty.h5", "a dataset without a value is refused by name", function(path)
    local ok, message = pcall(HDF5Dataset, path, { "empty_dataset" })
    assert.is_false(ok)
    assert.is_truthy(message:find("empty_dataset", 1, true), message)
  end)

  with("jamesmudd+jhdf+test_large_attribute.hdf5", "one that is no checkpoint is refused as such", function(path)
    local ok, message = pcall(ct.load, path)
    assert.is_false(ok)
    assert.is_truthy(message:find("not a checkpoint", 1, true), message)
  end)

  it("an unknown name gets the nearest one", function()
    local ok, message = pcall(HDF5Dataset, "examples/data/digits.h5", { "imges" })
    if not ok and message:find("cannot open", 1, true) then return pending("not run from the repository's folder") end
    assert.is_false(ok)
    assert.is_truthy(message:find("did you mean 'images'", 1, true), message)
  end)
end)

describe("a damaged file is an error that names it:", function()
  -- in a process of its own, with a limit of time
  for _, name in ipairs {
    "scigolib+hdf5+bad_offset.h5", "scigolib+hdf5+3790_infinite_loop.h5", "mokus0+hdf5+corrupt_stab_msg.h5",
    "HDFGroup+cve_hdf5+cve-2021-46244.h5",
  } do
    with(name, name, function(path)
      local result = process.lua(([[
local ct = require "ctrain"
local path = %q
for _, read in ipairs { ct.load, function(p) return ct.utils.data.HDF5Dataset(p, { "x" }) end } do
  local ok, message = pcall(read, path)
  assert(not ok and message:find(path, 1, true), message)
end
print "both refused"]]):format(path), { env = "timeout 20" })
      assert.equal("both refused\n", result.out, result.err)
      assert.equal(0, result.code)
    end)
  end
end)
