-- Compiled steps against the eager replay, bit for bit, on random programs (BUGS 1 and 2 among them: their bodies write
-- through views and into state). CTRAIN_SEEDS=from-to runs other seeds.
local programs = require "spec.support.programs"

local from, to = (os.getenv("CTRAIN_SEEDS") or ""):match("^(%d+)%-(%d+)$")

describe("a compiled random program", function()
  for seed = tonumber(from) or 1, tonumber(to) or 24 do
    it("gives the bits of the eager replay, seed " .. seed, function()
      local difference = programs.compare(seed)
      assert.is_nil(difference)
    end)
  end
end)
