-- Learns to read handwritten digits: 1,797 images of 8x8 pixels, of which 297 are held out to test on.
-- Run it with `ctrain examples/digits.lua`, or with lua5.4 or luajit.
local ct = require "ctrain"
local nn, data = ct.nn, ct.utils.data

ct.manual_seed(1)
local folder = arg[0]:match("^(.*/)[^/]*$") or "./"
local digits = data.HDF5Dataset(folder .. "data/digits.h5", { "images", "labels" })
local train_set, test_set = data.random_split(digits, { 1500, 297 }, { seed = 7 })

local function new_model()
  return nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
end

local function loader(dataset, options)
  return data.DataLoader(function() return data.Loader(dataset, options) end)
end

local backend = ct.backend("CPU")
local model = new_model()
local compiled = ct.compile(model, backend)
local optimizer = ct.optim.AdamW(model:parameters(), { lr = 5e-3 })

local train_step = ct.trace(function(images, labels)
  local loss = nn.functional.cross_entropy(compiled(images:float() / 16), labels)
  optimizer:zero_grad()
  loss:backward()
  optimizer:step()
  return loss
end)

-- Training: 20 times through the training images.
local batches = loader(train_set, { batch_size = 60, shuffle = true })
local executor = data.DataExecutor(batches, { num_steps = 500, checkpoint_steps = 500 })
local show = ct.step_closure(function(loss) executor:report { loss = loss } end)
local save = ct.checkpoint_closure(function(path)
  ct.save({ model = model:state_dict(), steps = executor.user_iteration }, path)
end)

local checkpoint = os.tmpname()
for batch in executor do
  show(train_step(batch[1], batch[2]))
  save(checkpoint)
end

-- A new model reads the checkpoint, and both are asked about the digits they were not shown.
local reloaded = new_model()
reloaded:load_state_dict(ct.load(checkpoint).model)
os.remove(checkpoint)

local held_out = test_set:get_batch(ct.arange(test_set:len()))
local function read(a_model) return a_model(held_out[1]:float() / 16):argmax(2) end
local function accuracy(predicted) return predicted:eq(held_out[2]):float():mean():item() end

local predicted = read(model)
print(("trained: held-out accuracy %.4f, %.0f samples/s"):format(accuracy(predicted), executor.profiler.global_rate))

-- Six of them, drawn.
local shades, images, labels = { [0] = " ", ".", ":", "+", "#" }, held_out[1]:totable(), predicted:totable()
for row = 1, 8 do
  local line = {}
  for i = 1, 6 do
    for column = 1, 8 do
      local shade = shades[math.floor(images[i][row][column] / 4)]
      line[#line + 1] = shade .. shade
    end
    line[#line + 1] = "  "
  end
  print(table.concat(line))
end
print(("       %d          "):rep(6):format(labels[1], labels[2], labels[3], labels[4], labels[5], labels[6]))

print(("held-out accuracy: %.4f"):format(accuracy(read(reloaded))))
