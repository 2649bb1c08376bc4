-- The module loaded again in one Lua state, as after package.loaded was cleared.
local ct = require "ctrain"

local function load_again()
  local kept = {}
  for name, module in pairs(package.loaded) do
    if name == "ctrain" or name:find("^ctrain%.") then kept[name] = module end
  end
  for name in pairs(kept) do package.loaded[name] = nil end
  local again = require "ctrain"
  for name in pairs(package.loaded) do
    if name:find("^ctrain%.") then package.loaded[name] = nil end
  end
  for name, module in pairs(kept) do package.loaded[name] = module end
  return again
end

describe("the module loaded a second time", function()
  it("knows the tensors that were made before", function()
    local t = ct.tensor { 1, 2 }
    local again = load_again()
    assert.is_true(again.is_tensor(t))
    assert.same({ 2, 4 }, (again.tensor { 1, 2 } + t):totable())
  end)

  it("lets traced steps of before be run and collected", function()
    local step = ct.trace(function(x) return x + 1 end, { compile = false })
    step(ct.ones(2))
    load_again()
    assert.same({ 2, 2 }, step(ct.ones(2)):totable())
    step = nil -- luacheck: ignore
    assert.has_no_error(collectgarbage)
  end)
end)
